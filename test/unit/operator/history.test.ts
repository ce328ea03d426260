import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { historyOf, isOfUnknownHistory, settleHistory } from "../../../operator/history.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const reference = { namespace: "n", name: "l" };
const pod = (creationTimestamp: string): Pod => ({
  metadata: { name: "p", creationTimestamp, labels: { "tenancy.dev/pool": "p" } },
  spec: { containers: [] },
});

/** What is written on a Lease of which the API server says this. */
function historyBy(managedFields: object[] | undefined, date: string | undefined = new Date(now).toUTCString()) {
  const body = Buffer.from(JSON.stringify({ metadata: { name: "l", managedFields } }));
  const client = { request: async () => ({ status: 200, headers: { date }, body }) } as unknown as ClusterClient;
  // By clocks of other machines.
  const taken = { metadata: { name: "l" }, spec: { renewTime: new Date().toISOString() } };
  return historyOf(taken, { client, reference, signal: new AbortController().signal });
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
  assert.equal(await historyBy([written(20_000)], "never"), anew);
  const client = {} as ClusterClient;
  const signal = new AbortController().signal;
  assert.equal(await historyOf(undefined, { client, reference, signal }), {}, "an installation");
});

test("settleHistory: what was unknown is known after the newest warm pod, and told on", async () => {
  const changes: unknown[] = [];
  const client = {
    get: async () => ({ metadata: { name: "l", annotations: { "tenancy.dev/history-since": "unknown", other: "o" } } }),
    replace: async (_resource: unknown, { metadata }: Pod) => void changes.push(metadata.annotations),
  } as unknown as ClusterClient;
  const all = { client, reference };
  const pods = [pod("2026-01-01T11:00:00Z"), pod("2026-01-01T12:00:00Z"), { ...pod(""), metadata: { name: "bound" } }];
  const since = await settleHistory("unknown", { ...all, pods });
  assert.is(since, "2026-01-01T12:00:00Z");
  assert.equal(
    pods.slice(0, 2).map((made) => isOfUnknownHistory(made, since)),
    [true, true],
  );
  assert.not.ok(isOfUnknownHistory(pod("2026-01-01T12:00:01Z"), since));
  assert.is(await settleHistory("unknown", { ...all, pods: [] }), undefined);
  assert.equal(changes, [{ other: "o", "tenancy.dev/history-since": since }, { other: "o" }]);
  for (const told of [undefined, since]) assert.is(await settleHistory(told, { ...all, pods }), told);
  assert.is(changes.length, 2);
  assert.not.ok(isOfUnknownHistory(pod("2026-01-01T11:00:00Z"), undefined));
});

test.run();
