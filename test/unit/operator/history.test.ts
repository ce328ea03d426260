import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { historyOf, isOfUnknownHistory, settleHistory } from "../../../operator/history.ts";

const now = Date.parse("2026-01-01T12:00:00.500Z");
const renewed = (msAgo: number) => ({
  metadata: { name: "l" },
  spec: { renewTime: new Date(now - msAgo).toISOString().replace("Z", "000Z") },
});
const pod = (creationTimestamp: string): Pod => ({
  metadata: { name: "p", creationTimestamp, labels: { "tenancy.dev/pool": "p" } },
  spec: { containers: [] },
});

test("historyOf: history is unknown where by the Lease nobody has led for long", () => {
  const anew = { "tenancy.dev/history-since": "unknown" };
  assert.equal(historyOf(renewed(3_600_000), now), anew);
  assert.equal(historyOf({ metadata: { name: "l" } }, now), anew, "a Lease that does not say");
  assert.equal(historyOf(renewed(20_000), now), {}, "a leader that was killed");
  assert.equal(historyOf(undefined, now), {}, "an installation");
});

test("settleHistory: what was unknown is known after the newest warm pod, and told on", async () => {
  const written: unknown[] = [];
  const client = {
    get: async () => ({ metadata: { name: "l", annotations: { "tenancy.dev/history-since": "unknown", other: "o" } } }),
    replace: async (_resource: unknown, { metadata }: Pod) => void written.push(metadata.annotations),
  } as unknown as ClusterClient;
  const all = { client, reference: { namespace: "n", name: "l" } };
  const pods = [pod("2026-01-01T11:00:00Z"), pod("2026-01-01T12:00:00Z"), { ...pod(""), metadata: { name: "bound" } }];
  const since = await settleHistory("unknown", { ...all, pods });
  assert.is(since, "2026-01-01T12:00:00Z");
  assert.equal(
    pods.slice(0, 2).map((made) => isOfUnknownHistory(made, since)),
    [true, true],
  );
  assert.not.ok(isOfUnknownHistory(pod("2026-01-01T12:00:01Z"), since));
  assert.is(await settleHistory("unknown", { ...all, pods: [] }), undefined);
  assert.equal(written, [{ other: "o", "tenancy.dev/history-since": since }, { other: "o" }]);
  for (const told of [undefined, since]) assert.is(await settleHistory(told, { ...all, pods }), told);
  assert.is(written.length, 2);
  assert.not.ok(isOfUnknownHistory(pod("2026-01-01T11:00:00Z"), undefined));
});

test.run();
