/** What to run, and where. */
export interface ExecTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  /** The program and its arguments; no shell is involved. */
  readonly command: readonly string[];
}
