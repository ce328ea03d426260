import { test } from "uvu";
import * as assert from "uvu/assert";
import { leases } from "../../../crds/client/built-in-resources.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { forgetHistory, historyOf, isOfUnknownHistory, settleHistory } from "../../../operator/history.ts";
import { errorOf } from "../../error-of.ts";
import { manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const reference = { namespace: "n", name: "l" };
const pod = (creationTimestamp: string): Pod => ({
  metadata: { name: "p", creationTimestamp, labels: { "tenancy.dev/pool": "p" } },
  spec: { containers: [] },
});

/** What is written on a Lease of which the API server says this. */
function historyBy(
  managedFields: object[] | undefined,
  { serverNow = now, followedForMs = 0 }: { serverNow?: number; followedForMs?: number } = {},
) {
  const api = new MemoryApi();
  api.add(leases, { metadata: { name: "l", ...{ managedFields } } });
  api.now = () => serverNow;
  // By clocks of other machines.
  const taken = { metadata: { name: "l" }, spec: { renewTime: new Date().toISOString() } };
  return historyOf(taken, { client: api.client, reference, followedForMs, signal: new AbortController().signal });
}

const written = (msAgo: number, fieldsV1: object = { "f:spec": { "f:holderIdentity": {}, "f:renewTime": {} } }) => ({
  ...{ manager: "tenancy-operator", operation: "Update" },
  ...{ time: new Date(now - msAgo).toISOString().replace(".000Z", "Z"), fieldsV1 },
});

test("historyOf: history is unknown where nobody has led for long, by the API server's clock", async () => {
  const anew = { "tenancy.dev/history-since": "unknown" };
  assert.equal(await historyBy([written(3_600_000)]), anew);
  assert.equal(await historyBy([written(20_000)]), {}, "a leader that was killed");
  assert.equal(await historyBy([written(-3_600_000)]), anew, "its clock was set back");
  const touched = written(1000, { "f:metadata": { "f:labels": {} } });
  assert.equal(await historyBy([touched, written(3_600_000)]), anew, "somebody else has labelled it since");
  assert.equal(await historyBy([touched]), anew);
  assert.equal(await historyBy(undefined), anew, "an API server that does not say when it was written");
  assert.equal(await historyBy([written(20_000)], { serverNow: Number.NaN }), anew);
  const { client } = new MemoryApi();
  const signal = new AbortController().signal;
  assert.equal(await historyOf(undefined, { client, reference, followedForMs: 0, signal }), {}, "an installation");
});

test("historyOf: an operator that has followed the cluster since before the last renewal knows its history", async () => {
  const unknown = { "tenancy.dev/history-since": "unknown" };
  const after = (msAgo: number, followedForMs: number) => historyBy([written(msAgo)], { followedForMs });
  assert.equal(await after(600_000, 700_000), {}, "the API server was away, or the leader, and this one was not");
  assert.equal(await after(600_000, 590_000), unknown, "it came after the last renewal");
  assert.equal(await after(600_000, 600_500), unknown, "the API server's times are whole seconds");
  assert.equal(await after(600_000, Number.NEGATIVE_INFINITY), unknown, "it follows nothing yet");
  assert.equal(await after(20_000, Number.NEGATIVE_INFINITY), {});
  assert.equal(await historyBy(undefined, { followedForMs: 700_000 }), unknown);
});

test("settleHistory: what was unknown is known after the newest warm pod, and told on", async () => {
  const api = new MemoryApi();
  const lease = { metadata: { name: "l", annotations: { "tenancy.dev/history-since": "unknown", other: "o" } } };
  const written = () => api.read(leases, "l").metadata.annotations;
  const all = { cluster: api.cluster, reference };
  api.add(leases, lease);
  const pods = [pod("2026-01-01T11:00:00Z"), pod("2026-01-01T12:00:00Z"), { ...pod(""), metadata: { name: "bound" } }];
  const since = await settleHistory("unknown", { ...all, pods });
  assert.is(since, "2026-01-01T12:00:00Z");
  assert.equal(written(), { other: "o", "tenancy.dev/history-since": since });
  assert.equal(
    pods.slice(0, 2).map((made) => isOfUnknownHistory(made, since)),
    [true, true],
  );
  assert.not.ok(isOfUnknownHistory(pod("2026-01-01T12:00:01Z"), since));
  api.add(leases, lease);
  assert.is(await settleHistory("unknown", { ...all, pods: [] }), undefined);
  assert.equal(written(), { other: "o" });
  api.calls.length = 0;
  for (const told of [undefined, since]) assert.is(await settleHistory(told, { ...all, pods }), told);
  assert.equal(api.calls, []);
  assert.not.ok(isOfUnknownHistory(pod("2026-01-01T11:00:00Z"), undefined));
});

test("forgetHistory: is written beside others who write the Lease, and when the API server is back", async () => {
  const api = new MemoryApi();
  const clock = manualClock(undefined, { longestPauseMs: 60_000 });
  const written = () => api.read(leases, "l").metadata.annotations;
  api.add(leases, { metadata: { name: "l", annotations: { other: "o" } } });
  for (let tries = 0; tries < 3; tries += 1) api.onNext("patch", new Error("socket hang up"));
  api.onNext("patch", () => api.add(leases, { metadata: { name: "l", annotations: { other: "renewed" } } }));
  await forgetHistory(api.cluster, { reference, clock });
  assert.equal(written(), { other: "renewed", "tenancy.dev/history-since": "unknown" });
  assert.is(clock.delays.length, 3);
});

test("forgetHistory: waits for the API server at most 30 s, and not for a Lease that the backup lacks", async () => {
  const api = new MemoryApi();
  const clock = manualClock(undefined, { longestPauseMs: 60_000 });
  await forgetHistory(api.cluster, { reference, clock });
  assert.equal(clock.delays, []);
  api.outage = new Error("connect ECONNREFUSED");
  const begun = clock.now();
  assert.is(await errorOf(forgetHistory(api.cluster, { reference, clock })), api.outage);
  assert.ok(clock.now() - begun > 25_000 && clock.now() - begun <= 30_000, `${clock.now() - begun}`);
});

test.run();
