/** A segment of a timeline, in milliseconds of one clock. */
export interface Segment {
  readonly name: string;
  readonly fromMs: number;
  /** Undefined while it lasts. */
  readonly toMs: number | undefined;
  readonly kind: "wait" | "data" | "ok" | "bad" | "unknown";
  readonly note?: string;
}
