export interface ListWatchTimings {
  /**
   * How long the server is asked to keep a watch open; each watch a quarter less to a quarter more. It bounds how long a dead stream
   * goes unnoticed, and costs one request each time. @default 120
   */
  readonly watchTimeoutSeconds: number;
  /** A stream that is silent for so long beyond that time is dead. @default 15000 */
  readonly silenceMarginMs: number;
  /** A watch that lasted so long was healthy: delays start over. @default 1000 */
  readonly healthyAfterMs: number;
  /** The first delay after a failure; it doubles from one to the next. @default 800 */
  readonly backoffMs: number;
  /** @default 30000 */
  readonly maxBackoffMs: number;
}

export const defaultListWatchTimings: ListWatchTimings = {
  watchTimeoutSeconds: 120,
  silenceMarginMs: 15_000,
  healthyAfterMs: 1_000,
  backoffMs: 800,
  maxBackoffMs: 30_000,
};
