// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { figuresOf } from "../../../edge/dashboard/overview/figures.ts";
import { findTroubles, headingWords, SLOW_MS, type TroubleSources } from "../../../edge/dashboard/overview/troubles.ts";

const test = suite("dashboard/overview");

type Claim = ApiTypes["Claim"];
const none: TroubleSources = {
  claims: [],
  workloads: [],
  pools: [],
  triggers: [],
  waitingMs: () => 0,
  emptyMs: () => 0,
};
const spec = {} as never;
const createdAt = "2026-01-01T00:00:00Z";

function claim(tenantId: string, phase: Claim["phase"], more: Partial<Claim> = {}): Claim {
  return { tenantId, workloadRef: "hello", phase, ...more };
}

function pool(name: string, status: Partial<ApiTypes["Pool"]["status"]>): ApiTypes["Pool"] {
  return { name, spec, createdAt, status: { phase: "Ready", ready: 1, warming: 0, desired: 2, ...status } };
}

test("what is as it should be is no trouble", () => {
  const claims = [claim("alice", "Active"), claim("bob", "Releasing"), claim("carol", "Pending")];
  const pools = [pool("a", {}), pool("b", { phase: "Filling", ready: 0 }), pool("off", { ready: 0, desired: 0 })];
  const workloads = [{ name: "hello", spec, createdAt, status: { phase: "Building" as const } }];
  const triggers = [{ name: "echo", spec, createdAt, status: {} }];
  assert.equal(findTroubles({ ...none, claims, pools, workloads, triggers }), []);
});

test("files that may be lost come first, then what fails, then what is slow", () => {
  const found = findTroubles({
    claims: [
      claim("slow", "Pending", { reason: "Unschedulable" }),
      claim("alice", "Error", { reason: "CrashLooping" }),
      claim("bob", "ReleaseFailed", { reason: "SaveFailed" }),
    ],
    workloads: [
      { name: "next", spec, createdAt, status: { phase: "Error", reason: "BuildFailed", message: "step 3" } },
    ],
    pools: [pool("web", { phase: "Degraded", reason: "CrashLooping" }), pool("full", { phase: "Filling", ready: 0 })],
    triggers: [{ name: "echo", spec, createdAt, status: { phase: "Error", detail: "no such secret" } }],
    waitingMs: () => SLOW_MS,
    emptyMs: () => SLOW_MS,
  });
  assert.equal(
    found.map(({ is, reason, what, href }) => `${is} ${reason} ${what} ${href}`),
    [
      "bad SaveFailed hello: files cannot be saved /dashboard/claims?phase=ReleaseFailed&workload=hello&reason=SaveFailed",
      "bad CrashLooping hello /dashboard/claims?phase=Error&workload=hello&reason=CrashLooping",
      "bad BuildFailed workload next /dashboard/workloads/next",
      "warn CrashLooping pool web: 1 of 2 ready /dashboard/pools/web",
      "warn Empty pool full: 0 of 2 ready /dashboard/pools/full",
      "bad Error trigger echo /dashboard/triggers/echo",
      "warn Unschedulable hello /dashboard/claims?phase=Pending&workload=hello&reason=Unschedulable",
    ],
  );
  assert.equal(found.map(({ message }) => message).filter(Boolean), ["step 3", "no such secret"]);
});

test("a claim whose program fails while it is Active is a trouble, and so is a release that takes long", () => {
  const claims = [
    claim("alice", "Releasing"),
    claim("bob", "Active", { reason: "CrashLooping" }),
    claim("carol", "Active"),
    claim("dan", "Released"),
  ];
  assert.equal(
    findTroubles({ ...none, claims, waitingMs: () => SLOW_MS }).map(
      ({ is, reason, href }) => `${is} ${reason} ${href}`,
    ),
    [
      "bad CrashLooping /dashboard/claims?phase=Active&workload=hello&reason=CrashLooping",
      "warn Releasing /dashboard/claims?phase=Releasing&workload=hello",
    ],
  );
  assert.equal(
    findTroubles({ ...none, claims }).map(({ reason }) => reason),
    ["CrashLooping"],
  );
});

test("headingWords says that nothing is wrong only of lists that are read, and are as they are", () => {
  const words = (count: number, ...states: string[]) => headingWords({ states, count, heardAt: "14:02" });
  assert.is(words(0, "live", "live"), "No problems");
  assert.is(words(1, "live"), "One problem");
  assert.is(words(2, "live"), "2 problems");
  assert.is(words(0, "live", "loading"), "Loading…");
  assert.is(words(0, "live", "stale"), "No problems at 14:02");
  assert.is(words(3, "stale"), "3 problems at 14:02");
});

test("claims that fail alike are one trouble with their number, the most frequent first", () => {
  const claims = [
    claim("a", "Error", { reason: "QuotaExceeded" }),
    ...["b", "c", "d"].map((tenant) => claim(tenant, "Error", { reason: "ImagePullFailed" })),
    claim("e", "Error", { reason: "ImagePullFailed", workloadRef: "notes" }),
  ];
  assert.equal(
    findTroubles({ ...none, claims }).map(({ reason, what, claims: count, example }) => [
      reason,
      what,
      count,
      example?.tenantId,
    ]),
    [
      ["ImagePullFailed", "hello", 3, "b"],
      ["QuotaExceeded", "hello", 1, "a"],
      ["ImagePullFailed", "notes", 1, "e"],
    ],
  );
});

test("figures are of the last minute that is over, rates of the hour, latencies of what is used", () => {
  const hour = (claims: number, p99Ms: number | null) => ({ claims, p50Ms: p99Ms, p99Ms });
  const source = (name: string, claims: number[], p99Ms: number | null) => ({
    source: name as "pool",
    ...{ claims, p50Ms: [], p99Ms: [] },
    hour: hour(
      claims.reduce((sum, one) => sum + one, 0),
      p99Ms,
    ),
  });
  const history = {
    ...{ since: createdAt, replica: "x", stepSeconds: 60, reasons: [] },
    sources: [source("pool", [0, 6, 1], 30), source("pool+data", [0, 1, 0], 90), source("cold", [0, 1, 0], 900)],
    errors: [0, 3, 9],
  };
  const { claims, perMinute, hits, hitRate, errorsPerMinute, p99Ms, sources } = figuresOf({
    ...history,
    sources: [...history.sources, source("cold+data", [0, 0, 0], null)],
  });
  assert.equal(claims, [0, 8, 1]);
  assert.equal([perMinute, errorsPerMinute, p99Ms], [8, 3, 30]);
  assert.equal(hits, [null, 87.5, 100]);
  assert.is(hitRate?.toFixed(1), "88.9");
  assert.is(sources.length, 3);
  const empty = figuresOf({ ...history, sources: [], errors: [] });
  assert.equal([empty.perMinute, empty.hitRate, empty.p99Ms], [0, undefined, undefined]);
});

test.run();
