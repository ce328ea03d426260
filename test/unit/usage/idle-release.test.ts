// @runtimes node bun
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, finalizer } from "../../../crds/labels.ts";
import { HOUR_MS, hourAt, hourStart } from "../../../crds/usage/usage-hour.ts";
import { parseRecord, type UsageStore } from "../../../crds/usage/usage-store.ts";
import { releaseClaim } from "../../../operator/claim/release-claim.ts";
import { releaseWhenIdle } from "../../../operator/claim/release-when-idle.ts";
import { createUsageRecorder } from "../../../operator/usage/usage-recorder.ts";
import { eventually } from "../../eventually.ts";
import { type TestOperator, testOperator } from "../operator/test-operator.ts";
import { silentLog } from "../silent-log.ts";
import { call } from "../snapshots/store-contract.ts";
import { type OnVolume, volumeSuite } from "../snapshots/volume-suite.ts";

const test = volumeSuite("usage of an idle session");
const since = "2026-11-29T10:00:00.000Z";

/** An operator with an Active claim whose pod has not been used for its idle timeout. */
function lead({ served }: OnVolume, store: UsageStore = served.usage) {
  const usage = createUsageRecorder({
    ...{ store, log: silentLog, retryLimitMs: 86_400_000, serverNow: Date.now },
    ...{ mayHaveStore: async () => true, claims: () => [], onRecorded: () => undefined, count: () => undefined },
  });
  const operator = testOperator({ usage, startedAt: -3_600_000 });
  const annotations = { [annotation.idleTimeoutSeconds]: "10", [annotation.claimUid]: "claim-uid" };
  operator.api.add(pods, { metadata: { name: "p", uid: "pod-uid", annotations }, spec: { containers: [] } });
  operator.api.add(claims, {
    metadata: { name: "c", uid: "claim-uid", finalizers: [finalizer.release, "example.com/stays"] },
    spec: { tenantId: "alice", workloadRef: "w" },
    status: {
      ...{ phase: "Active", instanceId: "p", instanceUid: "pod-uid", source: "pool", claimedAt: since },
      ...{ usageSince: since, resources: { vcpus: 1, memoryMb: 10 } },
    },
  });
  return { ...operator, usage };
}

async function releaseIdle({ api, context }: TestOperator): Promise<void> {
  context.seenUses.set("pod-uid", { use: `${since} undefined`, since: performance.now() - 60_000, isFirst: false });
  await releaseWhenIdle(api.read(claims, "c"), api.read(pods, "p"), context);
  assert.ok(api.read(claims, "c").metadata.deletionTimestamp !== undefined);
}

const release = ({ api, context }: TestOperator) => releaseClaim(api.read(claims, "c"), context);

async function endsIn(usage: UsageStore): Promise<(string | undefined)[]> {
  const ends: (string | undefined)[] = [];
  for (const hour of await usage.hours(call))
    for await (const lines of usage.read({ from: hour, to: hourAt(hourStart(hour) + HOUR_MS) }, call))
      ends.push(
        ...lines.flatMap((line) => parseRecord(line) ?? []).map((record) => ("end" in record ? record.end : undefined)),
      );
  return ends.filter((end) => end !== undefined);
}

test("says that it was idle", async (context) => {
  const first = lead(context);
  await releaseIdle(first);
  await release(first);
  await eventually(async () => (await endsIn(context.served.usage)).length > 0);
  assert.equal(await endsIn(context.served.usage), ["idle"]);
  await first.usage.stop();
});

test("says it too if the operator that released it could not record it, and was killed", async (context) => {
  const failing = { ...context.served.usage, append: () => Promise.reject(new Error("the store fails")) };
  const killed = lead(context, failing);
  await releaseIdle(killed);
  await release(killed);
  assert.is(killed.api.read(claims, "c").status?.phase, "Releasing");
  await killed.usage.stop();
  const next = lead(context);
  next.api.add(claims, killed.api.read(claims, "c"));
  await release(next);
  await eventually(async () => (await endsIn(context.served.usage)).length > 0);
  assert.equal(await endsIn(context.served.usage), ["idle"]);
  await next.usage.stop();
});

test("does not say it if the deletion for idleness failed, and a caller released it later", async (context) => {
  const operator = lead(context);
  const { api } = operator;
  api.onNext("delete", new Error("no answer"), claims);
  await releaseIdle(operator).catch(() => undefined);
  await releaseWhenIdle(api.read(claims, "c"), api.read(pods, "p"), {
    ...operator.context,
    seenUses: new Map([["pod-uid", { use: `${since} undefined`, since: performance.now(), isFirst: false }]]),
  });
  await api.client.delete(claims, { namespace: "n", name: "c" });
  await release(operator);
  await eventually(async () => (await endsIn(context.served.usage)).length > 0);
  assert.equal(await endsIn(context.served.usage), ["released"]);
  await operator.usage.stop();
});

test.run();
