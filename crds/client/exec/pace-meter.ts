/** Minimum amount per time, counted only while the other end is being waited for. */
export interface Pace {
  readonly bytesPerSecond: number;
  /** Milliseconds. */
  readonly overMs: number;
}

/** Distinguishes a slow peer from one that is itself kept waiting. */
export interface PaceMeter {
  /** From now on the other end is waited for. */
  begin(): void;
  /** From now on it is not. */
  end(): void;
  count(bytes: number): void;
  /** Judges each time of waiting that is long enough by itself, so it is to be asked more often than that. */
  isSlow(): boolean;
}

/**
 * @param pace without it nothing is slow
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
