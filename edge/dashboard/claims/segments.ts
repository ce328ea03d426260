import type { Segment } from "../parts/segment.ts";

/** When a claim reached each step of its start, as recorded by edge and operator. */
export interface ClaimTimes {
  readonly phase: string;
  readonly createdAt: string;
  /** When the API call arrived; absent if the claim was not made by the API. */
  readonly requestedAt?: string | undefined;
  readonly source?: string | undefined;
  readonly timeline?: readonly { readonly step: string; readonly at: string }[] | undefined;
}

/** What the time before each step was spent on. */
const names: Readonly<Record<string, string>> = {
  Seen: "Request to operator",
  Bound: "Finding a pod",
  Scheduled: "Finding a node",
  FilesFrom: "Waiting for files",
  FilesTo: "Restoring files",
  Started: "Starting program",
  Ready: "Waiting for health check",
  InputsGiven: "Giving inputs",
  ProgramStarted: "Starting program",
  OnClaimCalled: "Telling the program",
  Active: "Reporting ready",
  Error: "Until failure",
};
/** Every attempt that got a pod has these steps. If one is missing, another operator did the work before it. */
const always = ["Seen", "Bound"];

/** The segments of a claim's start. An unrecorded step leaves a gap; no duration is estimated. */
export function claimSegments({ phase, createdAt, requestedAt, source, timeline = [] }: ClaimTimes): Segment[] {
  const steps = timeline
    .map(({ step, at }) => ({ step, at: Date.parse(at) }))
    .filter(({ at }) => !Number.isNaN(at))
    // The edge's clock may be behind the operator's.
    .sort((a, b) => Number(b.step === "Requested") - Number(a.step === "Requested"));
  const [first] = steps;
  const last = steps.at(-1)?.step;
  // A retry reports its steps only when it ends.
  if (phase === "Pending" && (last === "Active" || last === "Error")) return [];
  const created = Date.parse(createdAt);
  if (first === undefined) {
    if (phase !== "Pending") return [];
    return [
      { name: "Pending", fromMs: created, toMs: undefined, kind: "wait", note: "start time known to the second" },
    ];
  }
  const segments: Segment[] = [];
  let fromMs = first.at;
  if (first.step !== "Requested") {
    // The API request was answered by the first start; a replacement pod has no request.
    const isAnother = requestedAt !== undefined;
    fromMs = isAnother ? first.at : Math.min(created, first.at);
    const note = isAnother ? "it got a replacement pod" : "created without the API: creation time known to the second";
    segments.push({ name: names[first.step] ?? first.step, fromMs, toMs: first.at, kind: "unknown", note });
    fromMs = first.at;
  }
  const seen = new Set(steps.map(({ step }) => step));
  for (const { step, at } of steps.slice(1)) {
    const needed = step === "Error" ? ["Seen"] : always;
    const missing = needed.filter((one) => !seen.has(one) && isBefore(one, step));
    const isGap = missing.length > 0;
    for (const one of missing) seen.add(one);
    const skew = fromMs - at;
    const note = isGap
      ? "another operator recorded the earlier steps"
      : skew > 0
        ? `the clocks of edge and operator differ by at least ${skew} ms`
        : step === "Bound" && source !== undefined
          ? `source ${source}`
          : undefined;
    segments.push({
      name: names[step] ?? step,
      fromMs: Math.min(fromMs, at),
      toMs: at,
      kind: isGap ? "unknown" : kindOf(step),
      ...(note !== undefined && { note }),
    });
    fromMs = at;
  }
  if (phase === "Pending") {
    segments.push({ name: "Now", fromMs, toMs: undefined, kind: "wait" });
  }
  return segments;
}

/** Milliseconds from the request to the response; undefined before the response. */
export function claimMs({ timeline = [] }: Pick<ClaimTimes, "timeline">): number | undefined {
  const [first, last] = [timeline[0], timeline.at(-1)];
  if (first?.step !== "Requested" || (last?.step !== "Active" && last?.step !== "Error")) return undefined;
  return Math.max(0, Date.parse(last.at) - Date.parse(first.at));
}

function kindOf(step: string): Segment["kind"] {
  if (step === "Error") return "bad";
  if (step === "FilesTo") return "data";
  return step === "Active" ? "ok" : "wait";
}

function isBefore(step: string, other: string): boolean {
  const order = Object.keys(names);
  return order.indexOf(step) < order.indexOf(other);
}
