import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { annotation } from "../../../crds/labels.ts";
import { createTimelines, requestedMs } from "../../../operator/claim/timeline.ts";

const test = suite("timelines");
const START = Date.parse("2026-01-01T00:00:00.000Z");
const at = (ms: number) => new Date(START + ms);
const steps = (timeline: { step: string; at: string }[]) =>
  timeline.map(({ step, at }) => `${step} ${Date.parse(at) - START}`).join(", ");

function claim(annotations: Record<string, string> = {}, status?: ClaimStatus): Claim {
  return {
    metadata: { name: "c", uid: "u", creationTimestamp: "2026-01-01T00:00:00Z", annotations },
    spec: { tenantId: "a", workloadRef: "app" },
    ...(status !== undefined && { status }),
  };
}

function timelinesAt(): {
  timelines: ReturnType<typeof createTimelines>;
  mark: (ms: number, step: "Seen" | "Bound") => void;
} {
  let now = 0;
  const timelines = createTimelines(() => START + now);
  const requested = claim({ [annotation.requestedAt]: at(0).toISOString() });
  return {
    timelines,
    mark(ms, step) {
      now = ms;
      timelines.mark(requested, step);
    },
  };
}

const requested = (status?: ClaimStatus) => claim({ [annotation.requestedAt]: at(0).toISOString() }, status);

test("a start is told from its request on, each step at the first time that it was seen", () => {
  const { timelines, mark } = timelinesAt();
  mark(6, "Seen");
  mark(9, "Seen");
  mark(14, "Bound");
  assert.is(steps(timelines.of(requested(), "Active", at(15))), "Requested 0, Seen 6, Bound 14, Active 15");
  // The status was not written: somebody else wrote the claim meanwhile.
  assert.is(steps(timelines.of(requested(), "Error", at(20))), "Requested 0, Seen 6, Bound 14, Error 20");
  timelines.forget("u");
  assert.is(steps(timelines.of(requested(), "Active", at(30))), "Requested 0, Active 30");
});

test("another pod has steps of its own, and so has another attempt", () => {
  const { timelines, mark } = timelinesAt();
  mark(6, "Seen");
  mark(14, "Bound");
  timelines.restart(requested());
  mark(40, "Bound");
  assert.is(steps(timelines.of(requested(), "Active", at(41))), "Requested 0, Seen 6, Bound 40, Active 41");
  const second = claim({ [annotation.requestedAt]: at(100).toISOString(), [annotation.attempt]: "2" });
  assert.is(steps(timelines.of(second, "Active", at(120))), "Requested 100, Active 120");
});

test("a request counts until it is answered: the next pod of an Active claim was asked for by nobody", () => {
  const { timelines } = timelinesAt();
  const answered: ClaimStatus = { phase: "Pending", claimedAt: at(15).toISOString() };
  assert.is(requestedMs(requested()), START);
  assert.is(requestedMs(requested(answered)), undefined);
  assert.is(steps(timelines.of(requested(answered), "Active", at(60_000))), "Active 60000");
  const again = { [annotation.requestedAt]: at(100).toISOString(), [annotation.attempt]: "2" };
  assert.is(requestedMs(claim(again, { ...answered, attempt: "1" })), START + 100);
  assert.is(requestedMs(claim(again, { ...answered, attempt: "2" })), undefined);
});

test("an error is an answer: a claim that comes up by itself hours later was not waited for", () => {
  const { timelines } = timelinesAt();
  const found: ClaimStatus = { phase: "Pending", timeline: [] };
  assert.is(requestedMs(requested(found)), undefined);
  assert.is(steps(timelines.of(requested(found), "Active", at(7_200_000))), "Active 7200000");
});

test("a claim made with kubectl was requested when it was created, which is known to the second and not shown", () => {
  const { timelines } = timelinesAt();
  assert.is(requestedMs(claim()), START);
  assert.is(steps(timelines.of(claim(), "Active", at(15))), "Active 15");
  assert.is(requestedMs(claim({ [annotation.requestedAt]: "soon" })), undefined);
});

test("a request comes first, also by a clock that is ahead", () => {
  const { timelines, mark } = timelinesAt();
  mark(-40, "Seen");
  mark(-30, "Bound");
  assert.is(steps(timelines.of(requested(), "Active", at(-29))), "Requested 0, Seen -40, Bound -30, Active -29");
});

test.run();
