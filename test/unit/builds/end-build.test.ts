import { test } from "uvu";
import * as assert from "uvu/assert";
import { jobs } from "../../../crds/client/built-in-resources.ts";
import type { Job } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { BuilderContext } from "../../../operator/builds/build-jobs.ts";
import type { BuildRecord } from "../../../operator/builds/build-result.ts";
import { endBuild, retryInMs, type WantedBuild } from "../../../operator/builds/end-build.ts";
import { builderContext } from "../../../operator/builds/ensure-build.ts";
import type { MemoryApi } from "../memory-api.ts";
import { testOperator } from "../operator/test-operator.ts";

const digest = `sha256:${"0a".repeat(32)}`;
const finishedAt = "2026-01-02T03:04:15.000Z";
const wanted: WantedBuild = {
  workload: { metadata: { name: "w", uid: "u" }, spec: { image: { dockerfile: "Dockerfile" } } },
  key: "k",
  found: { kind: "git" },
};

function jobOf(tries: number): Job {
  const annotations = { [annotation.attempt]: String(tries) };
  return {
    metadata: {
      name: "j",
      namespace: "tenancy-builds",
      uid: "ju",
      creationTimestamp: "2026-01-02T03:04:05Z",
      annotations,
    },
    spec: { template: {} },
  } as Job;
}

/** An operator with a Job that was tried so often. */
function operatorWith({ tries }: { tries: number }): { api: MemoryApi; context: BuilderContext; job: Job } {
  const { api, context } = testOperator({ env: { TENANCY_REGISTRY: "r.example/built" } });
  const builder = builderContext(context);
  assert.ok(builder);
  return { api, context: builder, job: api.add(jobs, jobOf(tries)) };
}

test("endBuild: what was built is kept with its Job, counted, and named by its digest", async () => {
  const { api, context, job } = operatorWith({ tries: 0 });
  const record: BuildRecord = { state: "Built", digest, steps: 5, cached: 2, finishedAt };
  const { image, build } = await endBuild(wanted, { job, record }, context);
  assert.is(image, `r.example/built/w@${digest}`);
  assert.equal([build?.state, build?.steps, build?.cached, build?.finishedAt], ["Built", 5, 2, finishedAt]);
  const annotations = { [annotation.buildResult]: JSON.stringify(record) };
  assert.equal(api.calls[0]?.body, { metadata: { uid: "ju", annotations } });
  assert.is(api.calls.length, 1);
  const shown = await context.metrics.registry.metrics();
  assert.match(shown, 'tenancy_build_steps_total{cached="true"} 2');
  assert.match(shown, 'tenancy_build_steps_total{cached="false"} 3');
  assert.match(shown, 'tenancy_build_seconds_sum{outcome="built"} 10');
});

test("endBuild: what would fail again is not begun anew, and is counted by its reason", async () => {
  const { context, job } = operatorWith({ tries: 0 });
  const record: BuildRecord = { state: "Failed", reason: "BuildTimeout", message: "late", finishedAt };
  const { image, build, requeueAfterMs } = await endBuild(wanted, { job, record }, context);
  assert.equal([image, build?.state, build?.tries, requeueAfterMs], [undefined, "Failed", undefined, undefined]);
  assert.match(await context.metrics.registry.metrics(), 'tenancy_build_failures_total{reason="BuildTimeout"} 1');
});

test("endBuild: a temporary failure is tried again after 10 s, then after longer, up to 10 minutes", async () => {
  const record: BuildRecord = { state: "Failed", reason: "RegistryRefused", message: "down", finishedAt };
  const waits: (string | undefined)[] = [];
  for (const tries of [0, 1, 2, 6, 50]) {
    const { context, job } = operatorWith({ tries });
    const { build } = await endBuild(wanted, { job, record }, context);
    assert.is(build?.tries, tries + 1);
    waits.push(build?.message?.replace(/.*T03:/, ""));
  }
  assert.equal(waits, ["04:25.000Z", "04:35.000Z", "04:55.000Z", "14:15.000Z", "14:15.000Z"]);
});

test("retryInMs: a clock that is set back does not make the pause longer", () => {
  const failedAt = (ms: number) => ({ state: "Failed" as const, tries: 1, finishedAt: new Date(ms).toISOString() });
  assert.is(retryInMs(failedAt(3_600_000), 0), 0);
  const waitMs = retryInMs(failedAt(0), 0);
  assert.is(waitMs, 10_000);
  assert.ok(retryInMs(failedAt(0), 3_600_000) <= 0);
});

test("endBuild: a pod that is lost is no failure until it is lost again and again", async () => {
  const record: BuildRecord = { state: "Failed", reason: "BuildLost", message: "gone", finishedAt };
  const states: (string | undefined)[] = [];
  for (const tries of [0, 1, 2]) {
    const { context, job } = operatorWith({ tries });
    states.push((await endBuild(wanted, { job, record }, context)).build?.state);
  }
  assert.equal(states, ["Pending", "Pending", "Failed"]);
});

test.run();
