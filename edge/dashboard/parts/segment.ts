/** A stretch of a time line, in milliseconds of one clock. */
export interface Segment {
  readonly name: string;
  readonly fromMs: number;
  /** Undefined while it goes on. */
  readonly toMs: number | undefined;
  readonly kind: "wait" | "data" | "ok" | "bad" | "unknown";
  /** What there is to say of it. */
  readonly note?: string;
}
