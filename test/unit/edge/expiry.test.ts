// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { eventually } from "../../eventually.ts";
import { active, answered, claim, edgeWithWorkload, NAME, pair, waiting } from "./claim-calls.ts";
import type { Answer, TestEdge } from "./test-edge.ts";

const test = suite("expiry and labels of claims");

/** The API server's time; the edge's own clock is an hour ahead. */
const NOW = Date.parse("2026-01-01T10:00:00.200Z");
const SOON = "2026-01-01T10:01:00Z";
const LATE = "2026-01-01T12:00:00Z";
/** A minute from now, in whole seconds. */
const IN_A_MINUTE = "2026-01-01T10:01:01Z";
const body = { workload: "app", expiresInSeconds: 60 };

const edgeAhead = (): TestEdge => {
  const edge = edgeWithWorkload({ timeOfDay: () => NOW });
  edge.clock.set(NOW + 3_600_000);
  return edge;
};
const conflict = () => new ApiError("changed", { status: 409, reason: "Conflict" });
/** Of claims. */
const writesOf = ({ cluster }: TestEdge) =>
  cluster.calls.filter(({ verb, kind }) => kind === "tenancyclaims" && verb !== "get");
const specOf = ({ cluster }: TestEdge) => cluster.claim(NAME).spec;
const extend = (edge: TestEdge, seconds: unknown = 60, more: object = {}): Promise<Answer> =>
  edge.call("POST /api/v1/tenants/a/extend", { body: { workload: "app", seconds, ...more } });

test("a new claim expires by the API server's clock, and has its labels", async () => {
  const edge = edgeAhead();
  const labels = { team: "red", constructor: "" };
  const call = claim(edge, { ...body, labels });
  await waiting(edge);
  assert.equal(specOf(edge), { ...pair, resume: false, expiresAt: IN_A_MINUTE, labels });
  edge.cluster.setStatus(NAME, active);
  const { status, json } = await call;
  assert.equal([status, json], [201, { ...answered, expiresAt: IN_A_MINUTE, labels }]);
});

test("a claim call moves the expiry of the claim that exists to a later time", async () => {
  for (const status of [active, { phase: "Pending" } as const]) {
    const edge = edgeAhead();
    edge.cluster.addClaim({ ...pair, status, spec: { expiresAt: SOON } });
    const call = claim(edge, body);
    await eventually(() => specOf(edge).expiresAt === IN_A_MINUTE);
    if (status !== active) {
      await waiting(edge);
      edge.cluster.setStatus(NAME, active);
    }
    const { json } = await call;
    assert.is((json as { expiresAt: string }).expiresAt, IN_A_MINUTE);
    assert.is((json as { message?: string }).message, undefined);
  }
});

test("a claim call never shortens a session, and says so", async () => {
  const kept: [spec: { expiresAt?: string }, message: RegExp][] = [
    [{ expiresAt: LATE }, /^the claim keeps its later expiry, 2026-01-01T12:00:00Z$/],
    [{}, /^the claim exists and does not expire/],
  ];
  for (const [spec, message] of kept) {
    const edge = edgeAhead();
    edge.cluster.addClaim({ ...pair, status: active, spec });
    const { status, json } = await claim(edge, body);
    const { expiresAt, message: said = "" } = json as { expiresAt?: string; message?: string };
    assert.equal([status, expiresAt], [201, spec.expiresAt]);
    assert.match(said, message);
    assert.equal(writesOf(edge), []);
  }
  const edge = edgeAhead();
  edge.cluster.addClaim({ ...pair, status: { ...active, message: "it has files" }, spec: { expiresAt: LATE } });
  const { json } = await claim(edge, body);
  assert.match((json as { message: string }).message, /^it has files; the claim keeps its later expiry/);
});

test("a claim call without an expiry says nothing about that of the claim that exists", async () => {
  const edge = edgeAhead();
  edge.cluster.addClaim({ ...pair, status: active, spec: { expiresAt: SOON } });
  assert.equal((await claim(edge)).json, { ...answered, source: "existing", expiresAt: SOON });
  assert.is(specOf(edge).expiresAt, SOON);
});

test("an expiry that another writer moves meanwhile is looked at again", async () => {
  const edge = edgeAhead();
  edge.cluster.addClaim({ ...pair, status: active, spec: { expiresAt: SOON } });
  edge.cluster.onNext("patch", () => {
    edge.cluster.add(claims, { ...edge.cluster.claim(NAME), spec: { ...specOf(edge), expiresAt: LATE } });
    throw conflict();
  });
  const call = claim(edge, body);
  await edge.clock.runWhenNextIs(40);
  const { json } = await call;
  assert.is((json as { expiresAt: string }).expiresAt, LATE);
});

test("other labels than those of the claim that exists: 409 with the keys, and no values", async () => {
  const spec = { labels: { team: "red-team", tier: "gold" } };
  for (const status of [active, { phase: "Pending" }, { phase: "Error", reason: "StartTimeout" }] as const) {
    const edge = edgeAhead();
    edge.cluster.addClaim({ ...pair, status, spec });
    const { status: code, error = "" } = await claim(edge, {
      workload: "app",
      labels: { team: "blue-team", job: "7" },
    });
    assert.is(code, 409);
    assert.match(error, /different: "job", "team", "tier"/);
    assert.not.match(error, /red-team|blue-team|gold|"7"/);
  }
  const edge = edgeAhead();
  edge.cluster.addClaim({ ...pair, status: active, spec });
  for (const labels of [undefined, { tier: "gold", team: "red-team" }]) {
    const { status, json } = await claim(edge, { workload: "app", ...(labels && { labels }) });
    assert.equal([status, (json as { labels: object }).labels], [201, spec.labels]);
  }
  assert.is((await claim(edge, { workload: "app", labels: {} })).status, 409);
});

test("labels that no pod could have are refused, without their values", async () => {
  const edge = edgeAhead();
  for (const labels of [{ "tenancy.dev/tenant": "b" }, { team: "a secret" }, ["team"], null]) {
    const { status, error = "" } = await claim(edge, { workload: "app", labels });
    assert.is(status, 400);
    assert.match(error, /^body\.labels/);
    assert.not.match(error, "secret");
  }
  assert.equal(edge.cluster.calls, []);
});

test("extend moves the expiry to so many seconds from now, by the API server's clock", async () => {
  const edge = edgeAhead();
  const { metadata } = edge.cluster.addClaim({ ...pair, status: active, spec: { expiresAt: SOON } });
  const { status, json } = await extend(edge, 60, { uid: metadata.uid });
  assert.equal([status, json], [200, { status: "extended", tenantId: "a", expiresAt: IN_A_MINUTE }]);
  assert.is(specOf(edge).expiresAt, IN_A_MINUTE);
});

test("extend never moves the expiry to an earlier time", async () => {
  const edge = edgeAhead();
  edge.cluster.addClaim({ ...pair, status: active, spec: { expiresAt: LATE } });
  const { status, json } = await extend(edge);
  assert.equal([status, json], [200, { status: "extended", tenantId: "a", expiresAt: LATE }]);
  assert.equal(writesOf(edge), []);
});

test("extend decides on the claim as it is, and tries again when another writer was faster", async () => {
  const edge = edgeAhead();
  edge.cluster.addClaim({ ...pair, status: active, spec: { expiresAt: SOON } });
  edge.cluster.onNext("patch", conflict());
  assert.is((await extend(edge)).status, 200);
  assert.is(specOf(edge).expiresAt, IN_A_MINUTE);
  // Its release shows on no watch yet.
  edge.cluster.lag = true;
  edge.cluster.addClaim({ ...pair, status: active, spec: { expiresAt: SOON }, deleting: true });
  assert.is((await extend(edge)).status, 409);
});

test("extend of a claim that is being released, does not expire, is another or none", async () => {
  const edge = edgeAhead();
  assert.equal(
    [(await extend(edge)).status, (await extend(edge)).error],
    [404, 'tenant "a" has no claim on workload "app"'],
  );
  edge.cluster.addClaim({ ...pair, status: active });
  const endless = await extend(edge);
  assert.is(endless.status, 409);
  assert.match(endless.error ?? "", /does not expire/);
  assert.is((await extend(edge, 60, { uid: "another" })).status, 409);
  edge.cluster.addClaim({ ...pair, status: { phase: "Releasing" }, spec: { expiresAt: SOON }, deleting: true });
  const going = await extend(edge);
  assert.is(going.status, 409);
  assert.match(going.error ?? "", /is being released/);
  for (const seconds of [0, 1.5, -1, 31_536_001, "60", undefined])
    assert.is((await edge.call("POST /api/v1/tenants/a/extend", { body: { workload: "app", seconds } })).status, 400);
});

test.run();
