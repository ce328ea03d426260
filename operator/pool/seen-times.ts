import { type Clock, steadyClock } from "../../crds/client/clock.ts";

/**
 * For how long this process has seen pods in a state.
 *
 * Counted from the first look, so that no pod is deleted because clocks differ, or for time in which no operator
 * watched. A new leader starts from zero.
 */
export interface SeenTimes {
  /**
   * Milliseconds since the pod was first seen in the state.
   *
   * @param since differs if the pod was in another state in between
   */
  forMs(uid: string, seen: { state: "starting" | "unready"; since: string | number }): number;
  /** The pod is gone. */
  forget(uid: string): void;
}

export function createSeenTimes(clock: Clock = steadyClock): SeenTimes {
  const pods = new Map<string, Map<string, { since: string | number; at: number }>>();
  return {
    forMs(uid, { state, since }) {
      const states = pods.get(uid) ?? new Map<string, { since: string | number; at: number }>();
      pods.set(uid, states);
      let seen = states.get(state);
      if (seen?.since !== since) {
        seen = { since, at: clock.now() };
        states.set(state, seen);
      }
      return clock.now() - seen.at;
    },
    forget: (uid) => void pods.delete(uid),
  };
}
