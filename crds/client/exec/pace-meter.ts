/** A minimum rate. Only the time in which this end waits for the other end counts. */
export interface Pace {
  readonly bytesPerSecond: number;
  /** Milliseconds. */
  readonly overMs: number;
}

/** Distinguishes a slow peer from a peer that has to wait itself. */
export interface PaceMeter {
  /** Starts waiting for the other end. */
  begin(): void;
  /** Stops waiting for the other end. */
  end(): void;
  count(bytes: number): void;
  /** Each period of `overMs` is checked separately, so the caller has to call this more often than once per period. */
  isSlow(): boolean;
}

/**
 * @param pace undefined if no rate is too slow
 * @param now milliseconds that only grow
 */
export function createPaceMeter(pace: Pace | undefined, now: () => number = () => performance.now()): PaceMeter {
  let bytes = 0;
  let waitedMs = 0;
  let since: number | undefined;

  function end(): void {
    if (since !== undefined) waitedMs += now() - since;
    since = undefined;
  }
  return {
    begin() {
      since ??= now();
    },
    end,
    count(passed) {
      bytes += passed;
    },
    isSlow() {
      const isWaiting = since !== undefined;
      end();
      if (isWaiting) since = now();
      if (pace === undefined || waitedMs < pace.overMs) return false;
      const isSlow = bytes < (pace.bytesPerSecond * waitedMs) / 1000;
      bytes = 0;
      waitedMs = 0;
      return isSlow;
    },
  };
}
