// @runtimes node bun
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { UsageRecord } from "../../../crds/usage/usage-record.ts";
import { conclude } from "../../../operator/claim/conclude.ts";
import { followPod } from "../../../operator/claim/follow-pod.ts";
import { createUsageRecorder } from "../../../operator/usage/usage-recorder.ts";
import { errorOf } from "../../error-of.ts";
import { testOperator } from "../operator/test-operator.ts";
import { silentLog } from "../silent-log.ts";
import { call } from "../snapshots/store-contract.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";

const test = volumeSuite("a pod that is back after its use was recorded as ended");
const since = "2026-11-29T10:00:00.000Z";

test("is counted on, as another use", async ({ served }) => {
  let now = Date.parse("2026-11-29T10:30:00Z");
  const usage = createUsageRecorder({
    ...{ store: served.usage, log: silentLog, retryLimitMs: 86_400_000, serverNow: () => now },
    clock: { now: () => now, after: () => () => undefined },
    ...{ mayHaveStore: async () => true, claims: () => [], onRecorded: () => undefined, count: () => undefined },
  });
  const { api, context } = testOperator({ usage });
  const pod = api.add(pods, { metadata: { name: "p", uid: "pod-uid" }, spec: { containers: [] } });
  api.add(claims, {
    metadata: { name: "c", uid: "claim-uid" },
    spec: { tenantId: "alice", workloadRef: "w" },
    status: {
      ...{ phase: "Active", instanceId: "p", instanceUid: "pod-uid", source: "pool", claimedAt: since },
      ...{ usageSince: since, resources: { vcpus: 1, memoryMb: 10 } },
    },
  });
  const claim = () => api.read(claims, "c");
  api.onNext("patch", new ApiError("conflict", { status: 409, reason: "Conflict" }), claims);
  const why = { reason: "PodLost", message: "its node does not answer" };
  assert.instance(await errorOf(conclude(claim(), { next: "replace", why }, context)), ApiError);
  await followPod(claim(), { pod, state: { state: "ready" } }, context);
  assert.is(claim().status?.usageSince, "2026-11-29T10:30:00.000Z");
  now += 600_000;
  await conclude(claim(), { next: "replace", why }, context);
  assert.is(claim().status?.usageSince, undefined);

  const records: UsageRecord[] = [];
  for await (const lines of served.usage.read({ from: "2026-11-29T10", to: "2026-11-29T11" }, call))
    records.push(...lines.map((line): UsageRecord => JSON.parse(line)));
  const seconds = new Map(records.map(({ id, vcpuSeconds }) => [id, vcpuSeconds]));
  assert.equal([...seconds.values()], [1800, 600]);
  await usage.stop();
});

test.run();
