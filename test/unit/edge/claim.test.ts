// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, finalizer, label } from "../../../crds/labels.ts";
import { hashedClaimName } from "../../../crds/names.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { eventually } from "../../eventually.ts";
import { serveStore } from "../snapshots/store-server.ts";
import { active, answered, claim, edgeWithWorkload, NAME, pair, release, waiting } from "./claim-calls.ts";
import { snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("POST /api/v1/tenants/{id}/claim");

const looksAtPod = ({ cluster }: TestEdge) =>
  cluster.calls.filter(({ verb, name }) => verb === "get" && name === active.instanceId).length;

test("an active claim is answered as existing, with one look at its pod and at itself, and no other call", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active });
  for (const body of [
    { workload: "app" },
    { workloadRef: "app" },
    { workload: "app", workloadRef: "app", resume: true },
  ]) {
    const answer = await claim(edge, body);
    assert.is(answer.status, 201);
    assert.equal(answer.json, { ...answered, source: "existing" });
    assert.equal(edge.cluster.calls.splice(0), [
      { verb: "get", kind: "pods", name: active.instanceId },
      { verb: "get", kind: "tenancyclaims", name: NAME },
    ]);
  }
  assert.is(edge.clock.pending(), 1, "only the use of the pod is still to be written, together with later ones");
});

test("calls that come while a look is under way share the next one", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active });
  const calls = [claim(edge)];
  await new Promise<void>((resolve) => {
    edge.cluster.onNext("get", () => {
      for (let count = 0; count < 20; count += 1) calls.push(claim(edge));
      resolve();
    });
  });
  for (const answer of await Promise.all(calls)) assert.equal(answer.json, { ...answered, source: "existing" });
  assert.is(looksAtPod(edge), 2);
});

test("the address is the pod's own at this moment, whatever the claim and the watch say", async () => {
  const edge = edgeWithWorkload();
  const made = edge.cluster.addClaim({ ...pair, status: active });
  edge.cluster.lag = true;
  edge.cluster.podOf(made, { podIP: "10.0.0.77" });
  const answer = await claim(edge);
  assert.equal(answer.json, { ...answered, source: "existing", endpoint: { host: "10.0.0.77", port: 8080 } });
});

test("a pod that is another claim's or tenant's, or gone, gives nobody an address", async () => {
  for (const lose of [
    (edge: TestEdge) => edge.cluster.podOf(edge.cluster.claim(NAME), { uid: "another" }),
    (edge: TestEdge) => edge.cluster.podOf(edge.cluster.claim(NAME), { tenantId: "b" }),
    (edge: TestEdge) => edge.cluster.removePod("inst-a-app-x1"),
  ]) {
    const edge = edgeWithWorkload();
    edge.cluster.addClaim({ ...pair, status: active });
    lose(edge);
    const pending = claim(edge);
    await waiting(edge);
    edge.cluster.setStatus(NAME, { phase: "Pending" });
    await waiting(edge);
    edge.cluster.setStatus(NAME, { ...active, instanceId: "inst-a-app-x2", source: "cold" });
    assert.equal((await pending).json, { ...answered, instanceId: "inst-a-app-x2", source: "cold" });
  }
});

test("a pod that has no address at this moment is waited for, also where no operator follows it", async () => {
  const edge = edgeWithWorkload();
  const made = edge.cluster.addClaim({ ...pair, status: active });
  edge.cluster.podOf(made, { podIP: undefined });
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.podOf(made, { podIP: "10.0.0.77" });
  const answer = await pending;
  assert.equal(answer.json, { ...answered, source: "existing", endpoint: { host: "10.0.0.77", port: 8080 } });
  assert.is(edge.clock.pending(), 1, "only the use of the pod is still to be written, together with later ones");
});

test("a pod without an address is looked at again after a moment, and a 504 after the limit", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.podOf(edge.cluster.addClaim({ ...pair, status: active }), { podIP: undefined });
  const pending = claim(edge);
  for (let count = 0; count < 30; count += 1) {
    await eventually(() => looksAtPod(edge) === count + 1 && edge.clock.pending() === 2);
    assert.is(await edge.clock.runNext(), 1000);
  }
  await eventually(() => edge.clock.pending() <= 1);
  if (edge.clock.pending() === 1) await edge.clock.runNext();
  assert.is((await pending).status, 504);
});

test("a pod that is not ready, as while its container starts again, is answered once it is", async () => {
  const edge = edgeWithWorkload();
  const made = edge.cluster.addClaim({ ...pair, status: active });
  edge.cluster.podOf(made, { isReady: false });
  const pending = claim(edge);
  for (let count = 1; count <= 3; count += 1) {
    await eventually(() => looksAtPod(edge) === count && edge.clock.pending() === 2);
    if (count === 3) edge.cluster.podOf(made, { podIP: "10.0.0.77" });
    assert.is(await edge.clock.runNext(), 250);
  }
  const endpoint = { host: "10.0.0.77", port: 8080 };
  assert.equal((await pending).json, { ...answered, source: "existing", endpoint });

  edge.cluster.podOf(made, { isReady: false });
  const looksBefore = looksAtPod(edge);
  let isAnswered = false;
  const late = claim(edge).finally(() => {
    isAnswered = true;
  });
  while (!isAnswered) {
    await eventually(() => isAnswered || edge.clock.pending() >= 3);
    if (!isAnswered) await edge.clock.runNext();
  }
  const answer = await late;
  assert.is(answer.status, 504);
  assert.match(answer.error ?? "", /its program does not pass its health check, or has no address at the moment/);
  const looks = looksAtPod(edge) - looksBefore;
  assert.ok(looks < 40, `${looks} looks in 30 s`);
});

test("where the pod cannot be asked for it is a 503, never an old address", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active });
  for (const error of [
    new NetworkError("refused", { requestWasSent: false }),
    new ApiError("no leader", { status: 503, reason: "ServiceUnavailable" }),
  ]) {
    edge.cluster.onNext("get", error);
    const answer = await claim(edge);
    assert.is(answer.status, 503);
    assert.not.match(answer.text, "10.0.0.9");
  }
  assert.is((await claim(edge)).status, 201);
});

test("a claim whose pod was destroyed is tried anew, once for all who call, with the resume of the call", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active, destroyed: active.instanceId ?? "" });
  edge.cluster.removePod("inst-a-app-x1");
  const calls = [claim(edge, { workload: "app", resume: true }), claim(edge), claim(edge)];
  await waiting(edge, 3);
  assert.is(edge.cluster.claim(NAME).metadata.annotations?.[annotation.attempt], "attempt-1");
  assert.is(edge.cluster.claim(NAME).spec.resume, true);
  edge.cluster.setStatus(NAME, { phase: "Pending" });
  await waiting(edge, 3);
  edge.cluster.setStatus(NAME, { ...active, instanceId: "inst-a-app-x2", source: "cold" });
  for (const answer of await Promise.all(calls))
    assert.equal(answer.json, { ...answered, instanceId: "inst-a-app-x2", source: "cold" });
});

test("a pod that a destroy call has marked and not deleted is its claim's still", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active, destroyed: active.instanceId ?? "" });
  assert.equal((await claim(edge)).json, { ...answered, source: "existing" });
  assert.equal(edge.cluster.verbs(), ["get", "get"]);
});

test("a claim that is being released, which the watch does not show yet, is waited out, and another one is made", async () => {
  for (const isGone of [false, true]) {
    const edge = edgeWithWorkload();
    edge.cluster.addClaim({ ...pair, uid: "first", status: active });
    edge.cluster.lag = true;
    edge.cluster.addClaim({ ...pair, uid: "first", status: active, deleting: true });
    if (isGone) edge.cluster.removeClaim(NAME, { from: "api" });
    const pending = claim(edge);
    await waiting(edge);
    assert.not(edge.cluster.verbs().includes("create"));
    edge.cluster.lag = false;
    edge.cluster.addClaim({ ...pair, uid: "first", status: active });
    edge.cluster.removeClaim(NAME);
    await eventually(() => edge.cluster.verbs().includes("create"));
    edge.cluster.setStatus(NAME, { ...active, instanceId: "inst-a-app-x2", source: "cold" });
    assert.equal((await pending).json, { ...answered, instanceId: "inst-a-app-x2", source: "cold" });
  }
});

test("a claim that was made anew by another replica is answered, before the watch shows it", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, uid: "first", status: active });
  edge.cluster.lag = true;
  edge.cluster.removeClaim(NAME, { from: "api" });
  const status = { ...active, instanceId: "inst-a-app-x2" };
  edge.cluster.addClaim({ ...pair, uid: "second", status });
  assert.equal((await claim(edge)).json, { ...answered, ...status, source: "existing" });
});

test("a release ends a call that waits for its pod's address", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.podOf(edge.cluster.addClaim({ ...pair, status: active }), { podIP: undefined });
  const pending = claim(edge);
  await waiting(edge);
  await release(edge);
  assert.is((await pending).status, 409);
});

test("resume on a claim that is active without its files is a 409 where there are files, and joins it where there are none", async () => {
  const volume = snapshotsFolder();
  const served = await serveStore(volume.path);
  let looks = 0;
  let isMarked = false;
  const store: SnapshotStore = {
    ...served.store,
    look(...given) {
      looks += 1;
      return served.store.look(...given);
    },
  };
  const edge = testEdge({ store, wasMarked: () => isMarked, clock: systemClock });
  try {
    edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
    edge.cluster.addSnapshots();
    edge.cluster.addClaim({ ...pair, status: active });
    const resume = () => claim(edge, { workload: "app", resume: true });
    assert.equal((await resume()).json, { ...answered, source: "existing" }, "there are none");
    assert.is(looks, 1);
    isMarked = true;
    assert.is((await resume()).status, 503, "there were some, and the volume has lost its mark");
    volume.save("a", "app");
    const refused = await resume();
    assert.is(refused.status, 409);
    assert.match(refused.error ?? "", /is using workload "app" without the saved files: release it with POST/);
    assert.match(refused.error ?? "", "or claim without resume to continue without them");
    for (const body of [{ workload: "app" }, { workload: "app", resume: false }]) {
      assert.is((await claim(edge, body)).status, 201, "without resume it goes on");
    }
    const before = looks;
    // One that asked for its files has what there was.
    for (const status of [
      { ...active, source: "pool+data" as const },
      { ...active, resumedFrom: "none" },
    ]) {
      edge.cluster.setStatus(NAME, status);
      assert.is((await resume()).status, 201, JSON.stringify(status));
    }
    assert.is(looks, before, "nothing was looked at");
    // What cannot be found out is not taken for none.
    edge.cluster.setStatus(NAME, active);
    await served.close();
    assert.is((await resume()).status, 503);
  } finally {
    // The use of the pod would be written a minute later, by the system's clock.
    await edge.activity.close();
    await served.close();
    volume.remove();
  }
});

test("a call that waits with resume on somebody's claim without is refused too", async () => {
  const volume = snapshotsFolder();
  const served = await serveStore(volume.path);
  const edge = testEdge({ store: served.store, clock: systemClock });
  try {
    edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
    edge.cluster.addSnapshots();
    volume.save("a", "app");
    edge.cluster.addClaim({ ...pair, status: { phase: "Pending" } });
    const pending = claim(edge, { workload: "app", resume: true });
    await waiting(edge);
    edge.cluster.setStatus(NAME, active);
    assert.is((await pending).status, 409);
  } finally {
    await served.close();
    volume.remove();
  }
});

test("a version is asked for by its digits, and another one than the session's is a 409", async () => {
  const edge = edgeWithWorkload();
  const version = "0123456789abcdef";
  const pending = claim(edge, { workload: "app", resume: { version } });
  await waiting(edge);
  const [created] = edge.cluster.calls;
  assert.equal((created?.body as Partial<{ spec: object }> | undefined)?.spec, {
    ...{ tenantId: "a", workloadRef: "app", resume: true },
    resumeVersion: version,
  });
  edge.cluster.setStatus(NAME, { phase: "Error", reason: "RestoreFailed", message: "there is no version of it" });
  const failed = await pending;
  assert.equal([failed.status, failed.error], [409, "there is no version of it"]);

  edge.cluster.setStatus(NAME, { ...active, source: "cold+data", resumedFrom: version.padEnd(64, "0") });
  assert.is((await claim(edge, { workload: "app", resume: { version } })).status, 201);
  assert.is((await claim(edge, { workload: "app", resume: true })).status, 201);
  const other = await claim(edge, { workload: "app", resume: { version: "f".repeat(64) } });
  assert.is(other.status, 409);
  assert.match(other.error ?? "", "without version ffff");
  for (const resume of [{}, { version: "x/y" }, { version: 5 }, { version, more: 1 }, [], "yes"]) {
    const answer = await claim(edge, { workload: "app", resume });
    assert.is(answer.status, 400, JSON.stringify(resume));
    assert.match(answer.error ?? "", "body.resume");
  }
});

test("without a claim, one is created with its finalizer, its label and the workload as the edge knows it, and its own source answers", async () => {
  const edge = edgeWithWorkload();
  const pending = claim(edge, { workload: "app", resume: true });
  await waiting(edge);
  assert.equal(edge.cluster.calls, [
    {
      verb: "create",
      kind: "tenancyclaims",
      name: NAME,
      body: {
        metadata: {
          name: NAME,
          namespace: "tenancy",
          labels: { [label.tenant]: "a", [label.workload]: "app" },
          annotations: {
            [annotation.workloadSeen]: "uid-101/1",
            [annotation.requestedAt]: "2026-01-01T00:00:00.000Z",
          },
          finalizers: [finalizer.release],
        },
        spec: { tenantId: "a", workloadRef: "app", resume: true },
      },
    },
  ]);
  edge.cluster.setStatus(NAME, { phase: "Pending" });
  edge.cluster.setStatus(NAME, active);
  const answer = await pending;
  assert.is(answer.status, 201);
  assert.equal(answer.json, answered);
  assert.is(edge.clock.pending(), 0, "the limit's timer is left");
  assert.is(edge.cluster.waiters.size, 0);
});

test("a claim gets the zone of the call that creates it, and keeps it when a call without one tries again", async () => {
  const edge = edgeWithWorkload();
  const attempt = async (zone?: string) => {
    const pending = claim(edge, { workload: "app", ...(zone !== undefined && { zone }) });
    await waiting(edge);
    const attempted = edge.cluster.read(claims, NAME).metadata.annotations?.[annotation.attempt];
    const { spec } = edge.cluster.read(claims, NAME);
    edge.cluster.setStatus(NAME, { phase: "Error", ...(attempted !== undefined && { attempt: attempted }) });
    assert.is((await pending).status, 500);
    return spec.zone;
  };
  assert.equal([await attempt("a"), await attempt(), await attempt("b")], ["a", "a", "b"]);
  const refused = await claim(edge, { workload: "app", zone: "a zone" });
  assert.is(refused.status, 400);
  assert.match(
    refused.error ?? "",
    /body\.zone: must be a zone, as in the nodes' label topology\.kubernetes\.io\/zone/,
  );
});

test("a workload that nobody made is a 404 that names it, and no claim is created", async () => {
  const edge = testEdge();
  const answer = await claim(edge, { workload: "nope" });
  assert.is(answer.status, 404);
  assert.is(
    answer.error,
    'workload "nope" does not exist; create it with POST /api/v1/workloads, or apply a TenancyWorkload with kubectl',
  );
  assert.equal(edge.cluster.verbs(), ["get"]);
});

test("a workload that the watch does not show yet is looked up", async () => {
  const edge = testEdge();
  edge.cluster.lag = true;
  edge.cluster.addWorkload("app");
  edge.cluster.lag = false;
  const pending = claim(edge);
  await waiting(edge);
  assert.equal(edge.cluster.verbs(), ["get", "create"]);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("a claim that the cluster shows although the watch saw it go does not make the call spin", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim(pair);
  edge.cluster.removeClaim(NAME, { from: "watches" });
  const pending = claim(edge);
  await eventually(() => edge.clock.pending() === 2);
  assert.ok(edge.cluster.calls.length <= 6, `${edge.cluster.calls.length} calls in a row`);
  edge.cluster.removeClaim(NAME, { from: "api" });
  await edge.clock.runNext();
  await eventually(() => edge.cluster.has(claims, NAME));
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("calls for the same pair share one claim", async () => {
  const edge = edgeWithWorkload();
  const calls = Array.from({ length: 20 }, () => claim(edge));
  await waiting(edge, 20);
  assert.is(edge.cluster.all(claims).length, 1);
  edge.cluster.setStatus(NAME, active);
  for (const answer of await Promise.all(calls)) {
    assert.is(answer.status, 201);
    assert.is((answer.json as { source: string }).source, "pool");
  }
});

test("a claim that another process created a moment ago is found by its name", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.lag = true;
  edge.cluster.addClaim(pair);
  edge.cluster.lag = false;
  const pending = claim(edge);
  await waiting(edge);
  assert.equal(edge.cluster.verbs(), ["create", "get"]);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("a claim that another process created and that is active already is existing", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.lag = true;
  edge.cluster.addClaim({ ...pair, status: active });
  assert.equal((await claim(edge)).json, { ...answered, source: "existing" });
});

test("a name that another pair has leads to the hashed name, never to that pair's claim", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("b-c");
  // Tenant "a-b" on "c" has the name that tenant "a" on "b-c" derives.
  edge.cluster.addClaim({ tenantId: "a-b", workloadRef: "c", name: "claim-a-b-c", status: active });
  const pending = edge.call("POST /api/v1/tenants/a/claim", { body: { workload: "b-c" } });
  await waiting(edge);
  const name = hashedClaimName({ tenantId: "a", workloadRef: "b-c" });
  assert.equal(
    edge.cluster.calls.map((call) => `${call.verb} ${call.name}`),
    ["create claim-a-b-c", "get claim-a-b-c", `create ${name}`],
  );
  edge.cluster.setStatus(name, { ...active, instanceId: "inst-own" });
  const answer = await pending;
  assert.is(answer.status, 201);
  assert.is((answer.json as { instanceId: string }).instanceId, "inst-own");
});

test("what was in the way and is gone again leads to another try, after a pause", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.lag = true;
  edge.cluster.addClaim(pair);
  edge.cluster.onNext("get", () => {
    edge.cluster.removeClaim(NAME, { from: "api" });
    edge.cluster.lag = false;
  });
  const pending = claim(edge);
  await eventually(() => edge.clock.pending() === 2);
  assert.is(await edge.clock.runNext(), 40);
  await eventually(() => edge.cluster.verbs().length === 3);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
  assert.equal(edge.cluster.verbs(), ["create", "get", "create"]);
});

test("a release under way is waited out, then claimed anew", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({
    ...pair,
    status: { ...active, phase: "Releasing" },
    deleting: true,
  });
  const pending = claim(edge);
  await waiting(edge);
  assert.equal(edge.cluster.verbs(), []);
  edge.cluster.removeClaim(NAME);
  await eventually(() => edge.cluster.verbs().length === 1);
  await waiting(edge);
  edge.cluster.setStatus(NAME, active);
  assert.equal((await pending).json, answered);
  assert.equal(edge.cluster.verbs(), ["create"]);
});

const RELEASED = "the claim was released while this call waited; claim again to start a new session";

test("a release ends the calls that wait on its claim with 409, and none of them claims anew", async () => {
  const edge = edgeWithWorkload();
  const calls = [claim(edge), claim(edge), claim(edge, { workload: "app", resume: true })];
  await waiting(edge, 3);
  assert.is((await release(edge)).status, 200);
  for (const answer of await Promise.all(calls)) assert.equal([answer.status, answer.error], [409, RELEASED]);
  edge.cluster.removeClaim(NAME);
  assert.is(edge.cluster.waiters.size, 0);
  assert.is(edge.cluster.verbs().filter((verb) => verb === "create").length, 1);
});

test("a claim that goes by another hand is released meanwhile, also where the watch shows only what came after", async () => {
  for (const after of [() => undefined, (edge: TestEdge) => edge.cluster.addClaim({ ...pair, status: active })]) {
    const edge = edgeWithWorkload();
    const pending = claim(edge);
    await waiting(edge);
    edge.cluster.removeClaim(NAME);
    after(edge);
    const answer = await pending;
    assert.equal([answer.status, answer.error], [409, RELEASED]);
    assert.equal(edge.cluster.verbs(), ["create"]);
  }
});

test("a claim that was revived and then released is a 409", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: { phase: "Error", message: "old" } });
  const pending = claim(edge);
  await waiting(edge);
  await release(edge);
  assert.is((await pending).status, 409);
  assert.equal(edge.cluster.verbs(), ["patch", "delete"]);
});

test("a call that waited a release out is ended by the next one", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: { ...active, phase: "Releasing" }, deleting: true });
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.removeClaim(NAME);
  await eventually(() => edge.cluster.verbs().includes("create"));
  await waiting(edge);
  await release(edge);
  assert.is((await pending).status, 409);
  assert.equal(edge.cluster.verbs(), ["create", "delete"]);
});

test("a duplicate that goes ends no call that waits on the claim beside it", async () => {
  const edge = edgeWithWorkload();
  const status: ClaimStatus = { phase: "Error", reason: "Duplicate" };
  edge.cluster.addClaim({ ...pair });
  edge.cluster.addClaim({ ...pair, name: "by-hand", status, createdAt: "2025-01-01T00:00:00Z" });
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.removeClaim("by-hand");
  assert.is(edge.cluster.waiters.size, 0);
  await waiting(edge);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("of two claims by hand, a call follows the one that turns out to be no duplicate", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, name: "by-hand", createdAt: "2025-01-01T00:00:00Z" });
  edge.cluster.addClaim({ ...pair });
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.setStatus("by-hand", { phase: "Error", reason: "Duplicate" });
  await waiting(edge);
  edge.cluster.removeClaim("by-hand");
  await waiting(edge);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("an active claim that is being deleted is not existing", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: active, deleting: true });
  const left = new AbortController();
  const pending = claim(edge, { workload: "app" }, left.signal);
  await waiting(edge);
  left.abort();
  assert.is((await pending).status, 499);
});

test("after the limit it is a 504, and the claim stays", async () => {
  const edge = edgeWithWorkload();
  const pending = claim(edge);
  await waiting(edge);
  assert.is(await edge.clock.runNext(), 30_000);
  const answer = await pending;
  assert.is(answer.status, 504);
  assert.is(
    answer.error,
    'workload "app" is not ready for tenant "a" after 30 s (no operator has reported on the claim: check that one is running); the claim continues: call again to keep waiting',
  );
  assert.equal(edge.cluster.verbs(), ["create"]);
  assert.ok(edge.cluster.claim(NAME));

  const again = claim(edge);
  await waiting(edge);
  edge.cluster.setStatus(NAME, active);
  assert.is((await again).status, 201);
  assert.equal(edge.cluster.verbs(), ["create", "get", "get"]);
});

test("only a call that made the attempt itself, a moment ago, takes the address from the status", async () => {
  for (const { ageMs, looks } of [
    { ageMs: 0, looks: 0 },
    { ageMs: 1999, looks: 0 },
    { ageMs: 2000, looks: 1 },
    { ageMs: -60_000, looks: 1 },
  ]) {
    let now = 100_000;
    const edge = testEdge({ clock: { ...systemClock, now: () => now } });
    edge.cluster.addWorkload("app");
    const pending = claim(edge);
    await waiting(edge);
    now += ageMs;
    edge.cluster.setStatus(NAME, active);
    assert.is((await pending).status, 201);
    assert.is(looksAtPod(edge), looks, `${ageMs} ms`);
  }
});

test("a claim that becomes active in the moment of the limit is answered", async () => {
  const edge = edgeWithWorkload();
  const pending = claim(edge);
  await waiting(edge);
  const moment = edge.clock.runNext();
  edge.cluster.setStatus(NAME, active);
  await moment;
  assert.is((await pending).status, 201);
});

test("the 504 says what the claim waits for, or that its release is not over", async () => {
  const waits = async (edge: TestEdge) => {
    const pending = claim(edge);
    await waiting(edge);
    await edge.clock.runNext();
    return (await pending).error ?? "";
  };
  const starts = edgeWithWorkload();
  const message = "the health check failed: connection refused on port 8081";
  starts.cluster.addClaim({
    ...pair,
    status: { phase: "Pending", reason: "Unhealthy", message, observedGeneration: 1 },
  });
  assert.match(await waits(starts), `after 30 s (${message}); the claim continues`);
  const silent = edgeWithWorkload();
  silent.cluster.addClaim({ ...pair, status: { phase: "Pending", observedGeneration: 1 } });
  assert.match(await waits(silent), "after 30 s; the claim continues");
  const releases = edgeWithWorkload();
  const { metadata } = releases.cluster.addClaim({ ...pair, status: { phase: "Releasing", observedGeneration: 1 } });
  metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  assert.match(await waits(releases), "after 30 s (its last session is still being released); the claim continues");
});

test("contact lost during the wait is a 503 at the limit, not a 504", async () => {
  const edge = edgeWithWorkload();
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.isFresh = false;
  await edge.clock.runNext();
  assert.is((await pending).status, 503);
});

test("a busy cluster begins nothing new, and goes on with what is there", async () => {
  const busy = {
    begin: () => {
      throw new HttpError(429, "busy", { headers: { "retry-after": "2" } });
    },
    write: <T>(work: () => Promise<T>) => work(),
  };
  const edge = edgeWithWorkload({ admission: busy });
  const refused = await claim(edge);
  assert.is(refused.status, 429);
  assert.is(refused.headers.get("retry-after"), "2");
  assert.equal(edge.cluster.calls, []);
  edge.cluster.addClaim({ ...pair, status: active });
  assert.is((await claim(edge)).status, 201);
});

test("a call counts as under way until it ends, however it does", async () => {
  let [begun, ended] = [0, 0];
  const admission = {
    begin() {
      begun += 1;
      return () => {
        ended += 1;
      };
    },
    write: <T>(work: () => Promise<T>) => work(),
  };
  const edge = edgeWithWorkload({ admission });
  const pending = claim(edge);
  await waiting(edge);
  assert.equal([begun, ended], [1, 0]);
  await edge.clock.runNext();
  assert.is((await pending).status, 504);
  assert.equal([begun, ended], [1, 1]);
});

test("a client that goes ends the wait and nothing else", async () => {
  const edge = edgeWithWorkload();
  const left = new AbortController();
  const pending = claim(edge, { workload: "app" }, left.signal);
  await waiting(edge);
  left.abort();
  await pending;
  assert.is(edge.cluster.waiters.size, 0);
  assert.is(edge.clock.pending(), 0);
  assert.ok(edge.cluster.claim(NAME));
  assert.equal(edge.cluster.verbs(), ["create"]);
  assert.equal(edge.log, []);
});

const inputs = { env: { A: "1" } };
const looksAtClaim = ({ cluster }: TestEdge) =>
  cluster.calls.filter(({ verb, name }) => verb === "get" && name === NAME).length;

function edgeOnClaim(): TestEdge {
  const edge = testEdge();
  edge.cluster.addWorkload("app", { entrypoint: { start: "OnClaim" } });
  edge.cluster.addClaim({ ...pair, status: active, spec: { inputs } });
  return edge;
}

test("a call with inputs whose client has left asks nothing more", async () => {
  const edge = edgeOnClaim();
  edge.cluster.removeClaim(NAME, { from: "api" });
  const left = new AbortController();
  const pending = claim(edge, { workload: "app", ...inputs }, left.signal);
  await waiting(edge);
  assert.is(looksAtClaim(edge), 1);
  left.abort();
  assert.is((await pending).status, 499);
  assert.is(looksAtClaim(edge), 1);
});

test("a call with other inputs waits for a release that the watch has not shown", async () => {
  const edge = edgeOnClaim();
  const { metadata, ...rest } = edge.cluster.claim(NAME);
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  edge.cluster.add(claims, { ...rest, metadata: { ...metadata, deletionTimestamp } }, { hidden: true });
  const pending = claim(edge, { workload: "app", env: { A: "2" } });
  await waiting(edge);
  edge.cluster.removeClaim(NAME);
  await waiting(edge);
  assert.equal(edge.cluster.claim(NAME).spec.inputs, { env: { A: "2" } });
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("another pair's changes wake nobody", async () => {
  const edge = edgeWithWorkload();
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.addClaim({ tenantId: "b", workloadRef: "app", status: active });
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "other", status: active });
  assert.is(edge.cluster.waiters.size, 1);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("of several objects for one pair, the one that is no duplicate answers", async () => {
  const edge = edgeWithWorkload();
  const status: ClaimStatus = { phase: "Error", reason: "Duplicate" };
  edge.cluster.addClaim({
    ...pair,
    name: "by-hand",
    status,
    createdAt: "2025-01-01T00:00:00Z",
  });
  edge.cluster.addClaim({ ...pair, status: active });
  assert.is((await claim(edge)).status, 201);
});

test.run();
