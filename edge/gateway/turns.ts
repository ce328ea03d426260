import { onAbort } from "../../crds/client/on-abort.ts";

/** Bounds how many events are in flight. */
export interface Turns {
  /**
   * Waits for a place among a trigger's events and among all; the function it returns gives the place back.
   *
   * @throws the signal's reason when it is aborted first
   */
  take(trigger: string, signal: AbortSignal): Promise<() => void>;
  readonly inFlight: number;
  readonly waiting: number;
}

interface Line {
  inFlight: number;
  readonly waiting: Set<() => void>;
}

/**
 * Makes a bound of `perTrigger` events for each trigger and of `inAll` for all: first come, first served within a trigger, and the
 * triggers that wait take turns, so that a busy one does not hold the others up.
 */
export function createTurns(options: { perTrigger: number; inAll: number }): Turns {
  const { perTrigger, inAll } = options;
  // In the order in which the triggers were last served: the one that waited longest comes first.
  const lines = new Map<string, Line>();
  let inFlight = 0;
  let waiting = 0;

  function leave(trigger: string, line: Line): void {
    line.inFlight -= 1;
    inFlight -= 1;
    if (line.inFlight === 0 && line.waiting.size === 0) lines.delete(trigger);
    serve();
  }

  function enter(trigger: string, line: Line): () => void {
    line.inFlight += 1;
    inFlight += 1;
    lines.delete(trigger);
    lines.set(trigger, line);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      leave(trigger, line);
    };
  }

  function serve(): void {
    for (const line of lines.values()) {
      if (inFlight >= inAll) return;
      const [next] = line.waiting;
      if (next !== undefined && line.inFlight < perTrigger) {
        next();
        serve();
        return;
      }
    }
  }

  return {
    async take(trigger, signal) {
      signal.throwIfAborted();
      const line = lines.get(trigger) ?? { inFlight: 0, waiting: new Set() };
      lines.set(trigger, line);
      if (inFlight < inAll && line.inFlight < perTrigger && line.waiting.size === 0) return enter(trigger, line);
      waiting += 1;
      try {
        return await new Promise((resolve, reject) => {
          const next = (): void => {
            line.waiting.delete(next);
            ignoreAbort();
            resolve(enter(trigger, line));
          };
          const ignoreAbort = onAbort(signal, () => {
            line.waiting.delete(next);
            if (line.inFlight === 0 && line.waiting.size === 0) lines.delete(trigger);
            reject(signal.reason);
          });
          line.waiting.add(next);
        });
      } finally {
        waiting -= 1;
      }
    },
    get inFlight() {
      return inFlight;
    },
    get waiting() {
      return waiting;
    },
  };
}
