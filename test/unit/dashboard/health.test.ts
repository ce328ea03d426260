// @runtimes bun node deno
import { signal } from "@preact/signals";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { createLiveList, type RowKind } from "../../../edge/dashboard/api/live-list.ts";
import { knownOf } from "../../../edge/dashboard/claims/known-of.ts";
import { healthOf, type Known } from "../../../edge/dashboard/parts/health.ts";
import { workloadListing } from "../../../edge/dashboard/workloads/listing.ts";

const test = suite("dashboard/health");

const told = (known: Known) => {
  const { is, word, why } = healthOf(known);
  return [is, word, why].filter(Boolean).join(" ");
};

test("healthOf goes by what goes wrong, not by the phase alone", () => {
  assert.is(told({ phase: "Active" }), "ok Active");
  assert.is(told({ phase: "Active", reason: "CrashLooping" }), "bad Crash looping");
  assert.is(told({ phase: "Active", reason: "SomethingNew" }), "bad Failing SomethingNew");
  assert.is(told({ phase: "Ready", reason: "ImagePullFailed" }), "bad Image unavailable");
  assert.is(told({ phase: "Pending" }), "warn Pending");
  assert.is(told({ phase: "Pending", reason: "ErrImagePull" }), "bad Image unavailable");
  assert.is(told({ phase: "Pending", reason: "Restoring" }), "warn Pending Restoring");
  assert.is(told({ phase: "Error", reason: "CrashLooping" }), "bad Failed CrashLooping");
  assert.is(told({ phase: "ReleaseFailed", reason: "SaveFailed" }), "bad Not saved SaveFailed");
  assert.is(told({ phase: "Terminating", reason: "InUse" }), "plain Terminating InUse");
  assert.is(told({ phase: "Degraded", reason: "PodsFail" }), "warn Degraded PodsFail");
  assert.is(told({ phase: "NewPhase" }), "plain NewPhase");
});

test("healthOf of an instance goes by its readiness and its restarts too", () => {
  const running = { phase: "Running", ready: true, restarts: 0 };
  assert.is(told(running), "ok Ready");
  assert.is(told({ ...running, ready: false }), "warn Not ready");
  assert.is(told({ ...running, restarts: 1 }), "warn Restarted once");
  assert.is(told({ ...running, restarts: 3 }), "warn Restarted 3 times");
  assert.is(told({ ...running, restarts: 3, reason: "CrashLoopBackOff" }), "bad Crash looping");
  assert.is(told({ ...running, ready: false, reason: "Error" }), "bad Failing Error");
  assert.is(told({ phase: "Pending", ready: false, restarts: 0 }), "warn Pending");
});

test("an Active claim without an endpoint is not ready", () => {
  assert.is(told(knownOf({ phase: "Active", endpoint: { host: "10.0.0.1", port: 80 } })), "ok Active");
  assert.is(told(knownOf({ phase: "Active" })), "warn Not ready");
  assert.is(told(knownOf({ phase: "Pending" })), "warn Pending");
});

function list<Row>(kind: RowKind<Row>) {
  const never = () => Promise.reject(new Error("not read"));
  const options = { readOne: never, onRead: () => undefined, onFailure: () => undefined };
  const made = createLiveList<Row>(kind, { ...options, clock: { after: () => () => undefined } });
  const { keyOf } = kind;
  return { ...made, keyOf, version: signal(0), state: signal("live" as const) };
}

function listing() {
  const byName = ({ name }: { name: string }): string => name;
  const lists = {
    workloads: list<ApiTypes["Workload"]>({ keyOf: byName }),
    claims: list<ApiTypes["Claim"]>({
      keyOf: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
    }),
    pools: list<ApiTypes["Pool"]>({ keyOf: byName }),
  };
  const shown = new Map<string, string | undefined>();
  const put = ({ name, failing }: { name: string; failing?: string }) => shown.set(name, failing);
  const end = workloadListing(lists).follow({
    put,
    remove: (name) => shown.delete(name),
    reset(rows) {
      shown.clear();
      for (const row of rows) put(row);
    },
  });
  const spec = { image: { ref: "i" } };
  const workload = (name: string) => ({ name, spec, status: { phase: "Ready" as const }, createdAt: "" });
  const claim = (tenantId: string, reason?: string) => ({
    ...{ tenantId, workloadRef: "hello", phase: "Active" as const },
    ...(reason !== undefined && { reason }),
  });
  return { lists, shown, end, workload, claim };
}

test("a workload fails while a claim on it fails by its doing, and no longer", () => {
  const { lists, shown, workload, claim } = listing();
  const { workloads, claims } = lists;
  workloads.reset([workload("hello"), workload("other")]);
  claims.reset([claim("alice"), claim("bob", "SaveFailed")]);
  assert.equal(
    [...shown],
    [
      ["hello", undefined],
      ["other", undefined],
    ],
  );
  const message = (type: string, object: object) => ({ id: "1", type, time: "", object });
  claims.apply([message("claim.active", claim("alice", "CrashLooping"))]);
  claims.apply([message("claim.active", claim("carol", "ImagePullFailed"))]);
  assert.equal(
    [...shown],
    [
      ["hello", "CrashLooping"],
      ["other", undefined],
    ],
  );
  claims.apply([message("claim.active", claim("alice"))]);
  assert.is(shown.get("hello"), "ImagePullFailed");
  claims.apply([message("claim.deleted", claim("carol"))]);
  assert.is(shown.get("hello"), undefined);
  claims.reset([claim("dave", "StartTimeout")]);
  assert.is(shown.get("hello"), "StartTimeout");
  claims.reset([]);
  assert.is(shown.get("hello"), undefined);
});

test("a workload that comes after its failing pool shows the failure, and nothing is shown after the end", () => {
  const { lists, shown, end, workload } = listing();
  const status = { phase: "Degraded" as const, ready: 0, warming: 1, reason: "PodsFail" };
  const pool = { name: "p", spec: { workloadRef: "hello", size: 2 }, createdAt: "" };
  lists.pools.reset([{ ...pool, status }]);
  lists.workloads.reset([workload("hello")]);
  assert.is(shown.get("hello"), "PodsFail");
  end();
  lists.pools.reset([]);
  assert.is(shown.get("hello"), "PodsFail");
});

test.run();
