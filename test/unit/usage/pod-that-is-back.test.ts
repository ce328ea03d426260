// @runtimes node bun
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, finalizer } from "../../../crds/labels.ts";
import type { UsageRecord } from "../../../crds/usage/usage-record.ts";
import { conclude } from "../../../operator/claim/conclude.ts";
import { followPod } from "../../../operator/claim/follow-pod.ts";
import { releaseClaim } from "../../../operator/claim/release-claim.ts";
import { createUsageRecorder } from "../../../operator/usage/usage-recorder.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import type { MemoryApi } from "../memory-api.ts";
import { type TestOperator, testOperator } from "../operator/test-operator.ts";
import { silentLog } from "../silent-log.ts";
import { call } from "../snapshots/store-contract.ts";
import { type OnVolume, volumeSuite } from "../snapshots/volume-suite.ts";

const test = volumeSuite("a pod that is back after its use was recorded as ended");
const since = "2026-11-29T10:00:00.000Z";

const why = { reason: "PodLost", message: "its node does not answer" };
let now: number;

test.before.each(() => {
  now = Date.parse("2026-11-29T10:30:00Z");
});

function recorderOn({ served }: OnVolume, claimsOf: () => Claim[] = () => []) {
  return createUsageRecorder({
    ...{ store: served.usage, log: silentLog, retryLimitMs: 86_400_000, serverNow: () => now },
    clock: { now: () => now, after: () => () => undefined },
    ...{ mayHaveStore: async () => true, claims: claimsOf, onRecorded: () => undefined, count: () => undefined },
  });
}

function addClaim(api: MemoryApi): Pod {
  const annotations = { [annotation.claimUid]: "claim-uid" };
  api.add(claims, {
    metadata: { name: "c", uid: "claim-uid", finalizers: [finalizer.release, "example.com/stays"] },
    spec: { tenantId: "alice", workloadRef: "w" },
    status: {
      ...{ phase: "Active", instanceId: "p", instanceUid: "pod-uid", source: "pool", claimedAt: since },
      ...{ usageSince: since, resources: { vcpus: 1, memoryMb: 10 } },
    },
  });
  return api.add(pods, { metadata: { name: "p", uid: "pod-uid", annotations }, spec: { containers: [] } });
}

/** The seconds of each id. */
async function secondsIn({ served }: OnVolume): Promise<number[]> {
  const records: UsageRecord[] = [];
  for await (const lines of served.usage.read({ from: "2026-11-29T10", to: "2026-11-29T12" }, call))
    records.push(...lines.map((line): UsageRecord => JSON.parse(line)));
  const seconds = new Map(records.map(({ id, vcpuSeconds }) => [id, vcpuSeconds]));
  return [...seconds.values()].sort((a, b) => b - a);
}

test("is counted on, as another use", async (stage) => {
  const usage = recorderOn(stage);
  const { api, context } = testOperator({ usage });
  const pod = addClaim(api);
  const claim = () => api.read(claims, "c");
  api.onNext("patch", new ApiError("conflict", { status: 409, reason: "Conflict" }), claims);
  assert.instance(await errorOf(conclude(claim(), { next: "replace", why }, context)), ApiError);
  await followPod(claim(), { pod, state: { state: "ready" } }, context);
  assert.is(claim().status?.usageSince, "2026-11-29T10:30:00.000Z");
  now += 600_000;
  await conclude(claim(), { next: "replace", why }, context);
  assert.is(claim().status?.usageSince, undefined);
  assert.equal(await secondsIn(stage), [1800, 600]);
  await usage.stop();
});

/** Has one operator after the other run the release, each until its first write of the claim or a pod. */
async function releaseByMany({ api, context }: TestOperator, stage: OnVolume): Promise<void> {
  const isReleased = () => api.read(claims, "c").status?.phase === "Released";
  for (let leaders = 0; !isReleased(); leaders += 1) {
    assert.ok(leaders < 10, "the release does not end");
    const usage = recorderOn(stage, () => api.all(claims));
    const { version } = api;
    await eventually(async () => {
      await releaseClaim(api.read(claims, "c"), { ...context, usage });
      return api.version !== version;
    });
  }
}

for (const [what, isKilled] of [
  ["by the same operator", false],
  ["by operators that are killed after any write", true],
] as const) {
  test(`is counted until its claim is deleted before another use was written, ${what}`, async (stage) => {
    const usage = recorderOn(stage);
    const operator = testOperator({ usage });
    const { api, context } = operator;
    addClaim(api);
    const stale = api.read(claims, "c");
    api.add(claims, { ...stale, metadata: { ...stale.metadata, annotations: { other: "write" } } }, { hidden: true });
    assert.instance(await errorOf(conclude(stale, { next: "replace", why }, context)), ApiError);
    now = Date.parse("2026-11-29T10:40:00Z");
    const present = api.read(claims, "c");
    api.add(claims, { ...present, metadata: { ...present.metadata, deletionTimestamp: "2026-11-29T10:40:00Z" } });
    if (isKilled) await releaseByMany(operator, stage);
    await eventually(async () => {
      await releaseClaim(api.read(claims, "c"), context);
      return api.read(claims, "c").status?.phase === "Released";
    });
    assert.equal([await secondsIn(stage), api.has(pods, "p")], [[1800, 600], false]);
    await usage.stop();
  });
}

test("that was lost indeed is not counted longer, though its claim is deleted later", async (stage) => {
  const usage = recorderOn(stage);
  const operator = testOperator({ usage });
  const { api, context } = operator;
  addClaim(api);
  api.onNext("patch", new ApiError("conflict", { status: 409, reason: "Conflict" }), claims);
  assert.instance(await errorOf(conclude(api.read(claims, "c"), { next: "replace", why }, context)), ApiError);
  now = Date.parse("2026-11-29T10:40:00Z");
  api.remove(pods, "p");
  const present = api.read(claims, "c");
  api.add(claims, { ...present, metadata: { ...present.metadata, deletionTimestamp: "2026-11-29T10:40:00Z" } });
  await releaseByMany(operator, stage);
  assert.equal(await secondsIn(stage), [1800]);
  await usage.stop();
});

test.run();
