import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { annotation } from "../../../crds/labels.ts";
import { releaseTrace } from "../../../crds/tracing/trace-context.ts";
import { createClaimTraces } from "../../../operator/claim/claim-traces.ts";
import type { Timeline, TimelineStep } from "../../../operator/claim/timeline.ts";
import { createRecorder } from "../tracing/recorder.ts";

const test = suite("traces of claims");
const START = Date.parse("2026-01-01T00:00:00.000Z");
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";
const traceparent = `00-${TRACE}-${SPAN}-01`;

function claim(annotations: Record<string, string> = {}, status?: ClaimStatus): Claim {
  return {
    metadata: {
      name: "claim-a-app",
      namespace: "tenancy",
      uid: "u",
      creationTimestamp: "2026-01-01T00:00:00Z",
      annotations,
    },
    spec: { tenantId: "a", workloadRef: "app" },
    ...(status !== undefined && { status }),
  };
}

function traces() {
  const recorder = createRecorder();
  const time = { ms: START + 100 };
  return { ...recorder, time, traces: createClaimTraces(recorder.tracer, () => time.ms) };
}

const timeline = (...steps: [step: TimelineStep, ms: number][]): Timeline =>
  steps.map(([step, ms]) => ({ step, at: new Date(START + ms).toISOString() }));

const cold = timeline(
  ...([
    ["Requested", 1],
    ["Seen", 5],
    ["Bound", 20],
    ["Scheduled", 30],
    ["FilesFrom", 40],
    ["FilesTo", 60],
    ["Started", 70],
    ["Ready", 80],
    ["Active", 90],
  ] as [TimelineStep, number][]),
);

test("a start is a span a step within its asker's trace, by the timeline that its status tells", () => {
  const { traces: made, family, one, spans } = traces();
  const attributes = { "k8s.pod.name": "inst-a", "tenancy.claim.source": "cold+data" };
  made.started(claim({ [annotation.traceparent]: traceparent }), { timeline: cold, attributes });
  const steps = ["create pod", "schedule pod", "restore files", "start containers", "wait until ready", "activate"];
  assert.equal(family(), ["start claim", ...steps.map((step) => `start claim > ${step}`).sort()]);
  const times = [one("start claim"), ...steps.map(one)].map(({ startMs, endMs }) => [startMs - START, endMs - START]);
  assert.equal(times, [
    [5, 100],
    [5, 20],
    [20, 30],
    [40, 60],
    [60, 70],
    [70, 80],
    [90, 100],
  ]);
  assert.ok(spans.every(({ context }) => context.traceId === TRACE));
  assert.is(one("start claim").parentSpanId, SPAN);
  assert.equal(one("start claim").attributes, {
    "k8s.namespace.name": "tenancy",
    "tenancy.claim.name": "claim-a-app",
    "tenancy.tenant": "a",
    "tenancy.workload": "app",
    ...attributes,
  });
});

test("a warm pod is bound, and a start that fails says why", () => {
  const warm = traces();
  const attributes = { "tenancy.claim.source": "pool" };
  warm.traces.started(claim(), { timeline: timeline(["Seen", 5], ["Bound", 20], ["Active", 21]), attributes });
  assert.equal(warm.family(), ["start claim", "start claim > activate", "start claim > bind warm pod"]);
  const failed = traces();
  const seen = timeline(["Requested", 1], ["Seen", 5], ["Bound", 20], ["Error", 90]);
  failed.traces.started(claim(), { timeline: seen, attributes: {}, error: "StartTimeout" });
  assert.equal(failed.family(), ["start claim", "start claim > create pod"]);
  assert.is(failed.one("start claim").attributes["error.type"], "StartTimeout");
});

test("an annotation that is not as the edge writes it is ignored, and one that is not sampled is obeyed", () => {
  for (const text of ["", "x", `${traceparent}-x`, `00-${"0".repeat(32)}-${SPAN}-01`, traceparent.toUpperCase()]) {
    const { traces: made, one } = traces();
    made.started(claim({ [annotation.traceparent]: text }), { timeline: cold, attributes: {} });
    assert.is(one("start claim").parentSpanId, undefined, text);
    assert.is.not(one("start claim").context.traceId, TRACE);
  }
  const { traces: made, spans } = traces();
  made.started(claim({ [annotation.traceparent]: `00-${TRACE}-${SPAN}-00` }), { timeline: cold, attributes: {} });
  assert.equal(spans, []);
});

test("another pod for a claim that was Active is a trace of its own, which names the first", () => {
  const { traces: made, one } = traces();
  const active: ClaimStatus = { phase: "Pending", claimedAt: "2026-01-01T00:00:00Z" };
  made.started(claim({ [annotation.traceparent]: traceparent }, active), { timeline: cold, attributes: {} });
  assert.is(one("start claim").parentSpanId, undefined);
  assert.equal(
    one("start claim").links.map(({ traceId, spanId }) => [traceId, spanId]),
    [[TRACE, SPAN]],
  );
});

test("a release has the ids of its claim's uid, and its steps are below it whoever records them", () => {
  const { traces: made, family, one, time } = traces();
  const asked = claim({ [annotation.traceparent]: traceparent }, { phase: "Active", instanceId: "inst-a" });
  asked.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  made.releasing(asked);
  time.ms += 10;
  made.releasing(asked);
  made.releaseStep(asked, "save files", { "k8s.pod.name": "inst-a" }).end();
  made.podsDeleted(asked);
  time.ms += 5;
  made.podsDeleted(asked);
  const record = made.release(asked);
  const again = made.release(asked);
  made.forget("u");
  record();
  again();
  assert.equal(family(), ["release claim", "release claim > delete pod", "release claim > save files"]);
  const { traceId, spanId } = releaseTrace("u");
  const root = one("release claim");
  assert.equal([root.context.traceId, root.context.spanId, root.parentSpanId], [traceId, spanId, undefined]);
  assert.equal([root.startMs - START, root.endMs - START], [100, 115]);
  assert.equal([one("delete pod").startMs - START, one("delete pod").endMs - START], [110, 115]);
  assert.is(root.links[0]?.traceId, TRACE);

  // A successor knows no more than the deletion's time.
  const successor = traces();
  successor.traces.release(asked)();
  assert.equal(successor.family(), ["release claim"]);
  assert.is(successor.one("release claim").startMs, START);
  assert.is(successor.one("release claim").context.spanId, spanId);
});

test.run();
