/** What a systematic driver has found. */
export interface SystematicReport {
  /** What was done, and how often, such as `runs`. */
  readonly counts: Readonly<Record<string, number>>;
  /** Why some of it was not done. */
  readonly left: readonly string[];
  readonly seconds: number;
  readonly differences: readonly Difference[];
  /** Holds the logs and the events; undefined where it was not kept. */
  readonly traceFolder: string | undefined;
}

/** A run that ended in another state than is expected, or broke an invariant. */
export interface Difference {
  /** The options that repeat it. */
  readonly again: string;
  /** What differs, after `-` (expected) and `+` (found), and after `!` what must not happen. */
  readonly lines: readonly string[];
}

/** Says it in words. */
export function renderSystematic({ counts, left, seconds, differences, traceFolder }: SystematicReport): string {
  const figures = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
  return [
    [...figures, `${seconds.toFixed(0)} s`, `${differences.length} differences`].join(", "),
    ...left.map((line) => `left out: ${line}`),
    ...differences.map(({ again, lines }) => `different: npm run soak -- ${again}\n${indented(lines)}`),
    ...(traceFolder === undefined ? [] : [`every event, and what the programs wrote: ${traceFolder}`]),
  ].join("\n");
}

export function indented(lines: readonly string[]): string {
  return lines.map((line) => `    ${line}`).join("\n");
}
