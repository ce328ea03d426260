import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { annotation } from "../../../crds/labels.ts";
import { createClaimHistory } from "../../../edge/history/claim-history.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("claim history");
const START = Date.parse("2026-01-01T00:00:00Z");

function world() {
  const clock = manualClock("2026-01-01T00:00:00Z");
  const history = createClaimHistory({ now: clock.now });
  const claimOf = (uid: string, status: Partial<ClaimStatus> | undefined, requestedAt?: number) =>
    ({
      metadata: {
        name: uid,
        uid,
        ...(requestedAt !== undefined && {
          annotations: { [annotation.requestedAt]: new Date(requestedAt).toISOString() },
        }),
      },
      spec: { tenantId: "a", workloadRef: "app" },
      status,
    }) as Claim;
  /** A claim that becomes Active `ms` after it was asked for. */
  const active = (uid: string, ms: number, source: ClaimStatus["source"] = "pool", requestedAt = clock.now()) => {
    const claimedAt = new Date(requestedAt + ms).toISOString();
    const object = claimOf(uid, { phase: "Active", source, claimedAt }, requestedAt);
    history.onChange({ type: "modified", object, previous: claimOf(uid, { phase: "Pending" }) });
    return object;
  };
  const fail = (uid: string, reason: string | undefined, more: { attempt?: string; previous?: Claim } = {}) => {
    const { attempt, previous = claimOf(uid, { phase: "Pending" }) } = more;
    const status = { phase: "Error", ...(reason !== undefined && { reason }), ...(attempt && { attempt }) } as const;
    const object = claimOf(uid, status);
    history.onChange({ type: "modified", object, previous });
    return object;
  };
  const sourceOf = (name: string) => {
    const found = history.read().sources.find(({ source }) => source === name);
    if (found === undefined) throw new Error(`no source ${name}`);
    return found;
  };
  const after = (seconds: number) => clock.set(clock.now() + seconds * 1000);
  return { clock, history, claimOf, active, fail, sourceOf, after };
}

test("claims are counted by minute and source, with latencies to an eighth", () => {
  const { history, active, sourceOf, after } = world();
  for (let count = 0; count < 98; count += 1) active(`a${count}`, 30);
  for (let count = 0; count < 2; count += 1) active(`b${count}`, 900);
  after(120);
  active("c", 2500, "cold");
  active("d", 7, "pool");
  const pool = sourceOf("pool");
  assert.equal(pool.claims, [100, 0, 1]);
  assert.is(pool.hour.claims, 101);
  const near = (got: number | null | undefined, ms: number) =>
    assert.ok(typeof got === "number" && Math.abs(got - ms) <= ms / 7, `${got} for ${ms}`);
  near(pool.p50Ms[0], 30);
  near(pool.p99Ms[0], 900);
  assert.is(pool.p50Ms[1], null);
  near(pool.p50Ms[2], 7);
  near(pool.hour.p50Ms, 30);
  near(sourceOf("cold").hour.p99Ms, 2500);
  assert.equal(sourceOf("cold+data").hour, { claims: 0, p50Ms: null, p99Ms: null });
  assert.is(history.read().from, START);
});

test("a latency counts once a request: a pod that is replaced hours later is no slow claim", () => {
  const { history, active, sourceOf, claimOf, after } = world();
  const first = active("a", 20);
  after(30);
  // The same Active claim, changed in something else.
  history.onChange({ type: "modified", object: { ...first }, previous: first });
  assert.is(sourceOf("pool").hour.claims, 1);
  active("a", 7_200_000, "cold", START);
  assert.equal(sourceOf("cold").hour, { claims: 1, p50Ms: null, p99Ms: null });
  // Nor one that was Active before this process began.
  history.onListed(claimOf("b", { phase: "Active", source: "pool", claimedAt: "2025-12-31T00:00:00Z" }, START - 1e8));
  active("b", 1e8, "pool", START - 1e8);
  assert.is(sourceOf("pool").hour.claims, 2);
  assert.ok((sourceOf("pool").hour.p99Ms ?? 0) < 30);
  // One that is asked for again is measured again, and so is another claim of the name.
  after(30);
  active("a", 20);
  history.onChange({ type: "deleted", object: first, previous: first });
  active("a", 20);
  assert.is(sourceOf("pool").hour.claims, 4);
});

test("an error is an answer: a claim that comes up by itself hours later is no slow one", () => {
  const { history, active, claimOf, sourceOf } = world();
  history.onChange({ type: "added", object: claimOf("a", { phase: "Error", reason: "WorkloadNotFound" }, START) });
  active("a", 7_200_000, "pool", START);
  assert.equal(sourceOf("pool").hour, { claims: 1, p50Ms: null, p99Ms: null });
});

test("a claim without a time of its request, or from a clock that is ahead, breaks nothing", () => {
  const { history, claimOf, active, sourceOf } = world();
  const object = claimOf("k", { phase: "Active", source: "pool", claimedAt: "2026-01-01T00:00:01Z" });
  history.onChange({ type: "added", object });
  assert.equal(sourceOf("pool").hour, { claims: 1, p50Ms: null, p99Ms: null });
  active("l", -500);
  active("m", 1e12);
  assert.is(sourceOf("pool").hour.claims, 3);
  assert.is(sourceOf("pool").hour.p50Ms, 1);
  const bad = claimOf("n", { phase: "Active", source: "pool", claimedAt: "soon" });
  bad.metadata.annotations = { [annotation.requestedAt]: "now" };
  history.onChange({ type: "added", object: bad });
  assert.is(sourceOf("pool").hour.claims, 4);
});

test("errors are counted by reason, each attempt once, the ninth reason as Other until there is room", () => {
  const { history, fail, after } = world();
  const first = fail("a", "ImagePullFailed");
  fail("a", "ImagePullFailed", { previous: first });
  const again = fail("a", "ImagePullFailed", { previous: first, attempt: "2" });
  fail("a", "ImagePullFailed", { previous: again, attempt: "2" });
  for (let count = 0; count < 9; count += 1) fail(`b${count}`, `Reason${count}`);
  fail("c", undefined);
  const { errors, reasons } = history.read();
  assert.equal(errors, [12]);
  assert.equal(reasons.slice(0, 2), [
    { reason: "Other", count: 3 },
    { reason: "ImagePullFailed", count: 2 },
  ]);
  assert.is(reasons.length, 9);
  after(3600);
  fail("d", "Late");
  assert.equal(history.read().reasons, [{ reason: "Late", count: 1 }]);
  assert.is(history.read().errors.length, 60);
});

test.run();
