import type { Clock } from "../../../crds/client/clock.ts";

/** The bots that this process polls successfully. */
export interface PolledBots {
  /** A poll of that trigger's bot was answered; the next one may wait for so many seconds. */
  answered(trigger: string, timeoutSeconds: number): void;
  /** This process no longer polls for that trigger. */
  ended(trigger: string): void;
  count(): number;
}

/** Time that the next poll may take beyond its wait: a failure or two, and a pause. */
const PATIENCE_MS = 60_000;

/** Counts a bot until its next answer is overdue, so that a bot whose polls fail or hang drops out. */
export function createPolledBots(clock: Pick<Clock, "now">): PolledBots {
  const dueBy = new Map<string, number>();
  return {
    answered: (trigger, timeoutSeconds) => void dueBy.set(trigger, clock.now() + timeoutSeconds * 1000 + PATIENCE_MS),
    ended: (trigger) => void dueBy.delete(trigger),
    count: () => [...dueBy.values()].filter((due) => due > clock.now()).length,
  };
}
