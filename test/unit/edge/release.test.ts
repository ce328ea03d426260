// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { hashedClaimName } from "../../../crds/names.ts";
import { eventually } from "../../eventually.ts";
import { active, claim, edgeWithWorkload, NAME, pair, release, waiting } from "./claim-calls.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("POST /api/v1/tenants/{id}/release");

const released = { status: "released", tenantId: "a" };

function edgeWithClaim(): TestEdge {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active });
  return edge;
}

test("deletes the claim with its uid as the precondition, and answers at once", async () => {
  for (const body of [{ workload: "app" }, { workloadRef: "app" }]) {
    const edge = edgeWithClaim();
    const { uid } = edge.cluster.claim(NAME).metadata;
    const answer = await release(edge, "", body);
    assert.is(answer.status, 200);
    assert.equal(answer.json, released);
    assert.equal(edge.cluster.calls, [{ verb: "delete", kind: "tenancyclaims", name: NAME, body: { uid } }]);
  }
});

test("a claim call right after does not answer existing, also before the watch shows the deletion", async () => {
  const edge = edgeWithClaim();
  edge.cluster.lag = true;
  await release(edge);
  const claimed = claim(edge);
  await waiting(edge);
  edge.cluster.lag = false;
  edge.cluster.removeClaim(NAME);
  await eventually(() => edge.cluster.verbs().includes("create"));
  edge.cluster.setStatus(NAME, { ...active, instanceId: "inst-b", source: "cold" });
  assert.is(((await claimed).json as { source: string }).source, "cold");
});

test("a release that is under way counts, after a look for a claim that is newer", async () => {
  const edge = edgeWithClaim();
  await release(edge);
  edge.cluster.calls.length = 0;
  assert.equal((await release(edge)).json, released);
  assert.equal(edge.cluster.verbs(), ["get", "get"]);
});

test("where the watch shows only a claim that was released, the one that came after it is released", async () => {
  for (const isGoing of [true, false]) {
    const edge = edgeWithWorkload();
    edge.cluster.addClaim({ ...pair, uid: "first", status: active, deleting: isGoing });
    edge.cluster.lag = true;
    edge.cluster.removeClaim(NAME, { from: "api" });
    edge.cluster.addClaim({ ...pair, uid: "second", status: active });
    assert.equal((await release(edge)).json, released);
    const { uid, deletionTimestamp } = edge.cluster.claim(NAME).metadata;
    assert.is(uid, "second");
    assert.ok(deletionTimestamp, isGoing ? "the first is shown as it goes" : "the first is shown as active");
  }
});

test("only the claim that is meant is released, also where the watch has yet to show the next one", async () => {
  const edge = edgeWithClaim();
  const first = edge.cluster.claim(NAME).metadata.uid;
  const refused = await release(edge, "", { workload: "app", uid: "of-another" });
  assert.is(refused.status, 409);
  assert.match(refused.error ?? "", " has ended, and another one exists now");
  edge.cluster.lag = true;
  edge.cluster.removeClaim(NAME, { from: "api" });
  edge.cluster.addClaim({ ...pair, uid: "second", status: active });
  assert.is((await release(edge, "", { workload: "app", uid: first })).status, 409);
  assert.is(edge.cluster.claim(NAME).metadata.deletionTimestamp, undefined);
  edge.cluster.lag = false;
  edge.cluster.addClaim({ ...pair, uid: "second", status: active });
  const duplicate = edge.cluster.addClaim({ ...pair, name: hashedClaimName(pair), status: { phase: "Error" } });
  assert.equal((await release(edge, "", { workload: "app", uid: "second" })).json, released);
  assert.ok(edge.cluster.claim(NAME).metadata.deletionTimestamp);
  assert.ok(edge.cluster.claim(duplicate.metadata.name).metadata.deletionTimestamp);
});

test("no such claim is a 404 that says whose and which", async () => {
  const edge = testEdge();
  const answer = await release(edge);
  assert.is(answer.status, 404);
  assert.is(answer.error, 'tenant "a" has no claim on workload "app"');
  assert.equal(
    edge.cluster.calls.map(({ verb, name }) => `${verb} ${name}`),
    [`get ${NAME}`, `get ${hashedClaimName(pair)}`],
  );
});

test("a claim that another process made a moment ago is found by either name", async () => {
  for (const name of [NAME, hashedClaimName(pair)]) {
    const edge = testEdge();
    edge.cluster.lag = true;
    edge.cluster.addClaim({ ...pair, name, status: active });
    assert.is((await release(edge)).status, 200);
    assert.ok(edge.cluster.claim(name).metadata.deletionTimestamp);
  }
});

test("another pair's claim under the same name is left alone", async () => {
  const edge = testEdge();
  edge.cluster.lag = true;
  edge.cluster.addClaim({ tenantId: "a-b", workloadRef: "c", name: "claim-a-b-c", status: active });
  assert.is((await release(edge, "", { workload: "b-c" })).status, 404);
  assert.is(edge.cluster.claim("claim-a-b-c").metadata.deletionTimestamp, undefined);
});

test("a claim that goes while it is being released is a 404", async () => {
  const edge = edgeWithClaim();
  edge.cluster.onNext("delete", () => edge.cluster.removeClaim(NAME));
  assert.is((await release(edge)).status, 404);
});

test("the claim that is meant is found where the watch does not show it yet, and its duplicates go with it", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, uid: "first", status: active });
  edge.cluster.addClaim({ ...pair, name: "by-hand", status: { phase: "Error", reason: "Duplicate" } });
  edge.cluster.lag = true;
  edge.cluster.removeClaim(NAME, { from: "api" });
  edge.cluster.addClaim({ ...pair, uid: "second", status: active });
  assert.is((await release(edge, "", { workload: "app", uid: "second" })).status, 200);
  for (const name of [NAME, "by-hand"]) assert.ok(edge.cluster.claim(name).metadata.deletionTimestamp, name);
});

test("a successor under the same name is not deleted for the claim that is meant", async () => {
  const edge = edgeWithClaim();
  const { uid } = edge.cluster.claim(NAME).metadata;
  edge.cluster.onNext("delete", () => {
    edge.cluster.lag = true;
    edge.cluster.removeClaim(NAME, { from: "api" });
    edge.cluster.addClaim({ ...pair, status: active });
  });
  assert.is((await release(edge, "", { workload: "app", uid })).status, 409);
  assert.is(edge.cluster.claim(NAME).metadata.deletionTimestamp, undefined);
});

test("duplicates go with the claim", async () => {
  const edge = edgeWithClaim();
  edge.cluster.addClaim({
    ...pair,
    name: "by-hand",
    status: { phase: "Error", reason: "Duplicate" },
  });
  assert.is((await release(edge)).status, 200);
  for (const name of [NAME, "by-hand"]) assert.ok(edge.cluster.claim(name).metadata.deletionTimestamp, name);
});

test("wait=true answers when the claim is gone", async () => {
  const edge = edgeWithClaim();
  const pending = release(edge, "?wait=true");
  await waiting(edge);
  edge.cluster.removeClaim(NAME);
  assert.equal((await pending).json, released);
  assert.is(edge.clock.pending(), 0);
});

test("wait=true says what became of the files, also where the claim's end comes at once", async () => {
  const edge = edgeWithClaim();
  const { uid } = edge.cluster.claim(NAME).metadata;
  const pending = release(edge, "?wait=true");
  await waiting(edge);
  edge.cluster.setStatus(NAME, { ...active, phase: "Releasing" });
  edge.cluster.setStatus(NAME, { ...active, phase: "Released", files: "notSaved" });
  edge.cluster.removeClaim(NAME);
  edge.cluster.addClaim({ ...pair, uid: "next", status: { ...active, files: "saved" } });
  assert.is.not(uid, "next");
  assert.equal((await pending).json, { ...released, files: "notSaved" });
});

test("wait=true says nothing of the files of another session, whose release was under way before", async () => {
  const edge = edgeWithWorkload();
  const name = hashedClaimName(pair);
  const releasing = { ...active, phase: "Releasing", files: "discarded" } as const;
  for (const body of [{ workload: "app", uid: "second" }, { workload: "app" }]) {
    edge.cluster.addClaim({ ...pair, uid: "first", status: releasing, deleting: true });
    edge.cluster.addClaim({ ...pair, name, uid: "second", status: { phase: "Pending" } });
    const pending = release(edge, "?wait=true", body);
    await waiting(edge);
    for (const each of [NAME, name]) edge.cluster.removeClaim(each);
    assert.equal((await pending).json, released);
  }
});

test("wait=true waits for a release that is under way and that the watch has yet to show", async () => {
  for (const before of [undefined, "first"]) {
    const edge = edgeWithWorkload();
    if (before !== undefined) {
      edge.cluster.addClaim({ ...pair, uid: before, status: active, deleting: true });
      edge.cluster.removeClaim(NAME, { from: "api" });
    }
    edge.cluster.lag = true;
    edge.cluster.addClaim({ ...pair, uid: "second", status: { ...active, phase: "Releasing" }, deleting: true });
    let isAnswered = false;
    const pending = release(edge, "?wait=true").finally(() => {
      isAnswered = true;
    });
    await eventually(() => isAnswered || edge.cluster.waiters.size === 1);
    assert.not.ok(isAnswered, before);
    edge.cluster.removeClaim(NAME);
    assert.equal((await pending).json, released);
  }
});

test("wait=true is a 500 too where the watch has yet to show that the release failed", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.lag = true;
  edge.cluster.addClaim({ ...pair, status: { phase: "ReleaseFailed", message: "disk full" }, deleting: true });
  const answer = await release(edge, "?wait=true");
  assert.is(answer.status, 500);
  assert.equal(answer.json, { error: "disk full" });
});

test("wait=true does not wait for the claim that comes next", async () => {
  const edge = edgeWithClaim();
  const pending = release(edge, "?wait=true");
  await waiting(edge);
  edge.cluster.removeClaim(NAME);
  edge.cluster.addClaim({ ...pair, status: active });
  assert.is((await pending).status, 200);
});

test("wait=true is a 504 after the limit, and the release goes on", async () => {
  const edge = edgeWithClaim();
  const pending = release(edge, "?wait=true");
  await waiting(edge);
  assert.is(await edge.clock.runNext(), 30_000);
  const answer = await pending;
  assert.is(answer.status, 504);
  assert.is(answer.error, 'the release of workload "app" is not finished after 30 s; it goes on');
});

test("wait=true is a 500 with the claim's message where the data could not be saved", async () => {
  const edge = edgeWithClaim();
  const pending = release(edge, "?wait=true");
  await waiting(edge);
  edge.cluster.setStatus(NAME, { phase: "ReleaseFailed", message: "disk full" });
  const answer = await pending;
  assert.is(answer.status, 500);
  assert.equal(answer.json, { error: "disk full" });
});

test("wait is true or false", async () => {
  for (const query of ["?wait=1", "?wait", "?wait=yes", "?wait=true&wait=true"]) {
    const answer = await release(edgeWithClaim(), query);
    assert.is(answer.status, 400, query);
    assert.is(answer.error, "query.wait: must be true or false");
  }
  assert.is((await release(edgeWithClaim(), "?wait=false")).status, 200);
});

test("resume is no key of a release", async () => {
  const answer = await release(edgeWithClaim(), "", { workload: "app", resume: true });
  assert.is(answer.error, 'body: unknown key "resume"; known are workload, workloadRef, uid');
});

test.run();
