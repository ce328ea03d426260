import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { annotation } from "../../crds/labels.ts";

export type Timeline = NonNullable<ClaimStatus["timeline"]>;
export type TimelineStep = Timeline[number]["step"];

/**
 * When each claim that is being started reached its steps, seen by this process. The timeline is written with the
 * status that ends the start, so it costs no extra write. Steps that another operator saw are missing.
 */
export interface Timelines {
  /** Notes that a step was reached now; in one attempt, only the first time counts. */
  mark(claim: Claim, step: TimelineStep): void;
  /** The claim gets another pod: drops the notes of the previous one. */
  restart(claim: Claim): void;
  /** The timeline of a start that ends with this step. */
  of(claim: Claim, last: "Active" | "Error", at: Date): Timeline;
  forget(uid: string): void;
}

/** Stores the notes of each claim by its uid. */
export function createTimelines(now: () => number): Timelines {
  const starts = new Map<string, { readonly attempt: string; readonly marks: Map<TimelineStep, number> }>();

  function marksOf({ metadata: { uid = "", annotations } }: Claim): Map<TimelineStep, number> {
    const attempt = annotations?.[annotation.attempt] ?? "";
    const known = starts.get(uid);
    if (known?.attempt === attempt) return known.marks;
    const marks = new Map<TimelineStep, number>();
    starts.set(uid, { attempt, marks });
    return marks;
  }

  return {
    mark(claim, step) {
      const marks = marksOf(claim);
      if (!marks.has(step)) marks.set(step, now());
    },
    restart(claim) {
      const marks = marksOf(claim);
      for (const step of marks.keys()) if (step !== "Seen") marks.delete(step);
    },
    of(claim, last, at) {
      const requested = Date.parse(claim.metadata.annotations?.[annotation.requestedAt] ?? "");
      const isNew = !Number.isNaN(requested) && requestedMs(claim) !== undefined;
      const marks = [...marksOf(claim)].sort(([, a], [, b]) => a - b);
      // `Requested` is first: its time comes from the edge's clock, which may be ahead of this one.
      const all = [...(isNew ? [["Requested", requested] as const] : []), ...marks, [last, at.getTime()] as const];
      return all.map(([step, ms]) => ({ step, at: new Date(ms).toISOString() }));
    },
    forget: (uid) => void starts.delete(uid),
  };
}

/**
 * When the claim call was made that a claim is being started for; undefined if that call was answered before, and the
 * claim only gets another pod.
 */
export function requestedMs({ metadata, status }: Claim): number | undefined {
  const { annotations = {}, creationTimestamp = "" } = metadata;
  const isAnswered =
    status?.claimedAt !== undefined && (status.attempt ?? "") === (annotations[annotation.attempt] ?? "");
  if (isAnswered || status?.timeline?.length === 0) return undefined;
  const ms = Date.parse(annotations[annotation.requestedAt] ?? creationTimestamp);
  return Number.isNaN(ms) ? undefined : ms;
}
