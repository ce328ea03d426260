import { programStatus, SANDBOX_CONDITIONS } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";

/** The conditions without which a pod is not ready. */
const DECISIVE = ["Ready", ...SANDBOX_CONDITIONS];

/** When and how a pod lost its readiness. */
export interface LostReadiness {
  /** Since when it is not ready, in milliseconds since the epoch, by the cluster's clocks; 0 if unknown. */
  readonly lostAt: number;
  /** Whether it was ready before. */
  readonly wasReady: boolean;
  /** Whether the program that was ready still runs, so that the node or the health check is the cause. */
  readonly isSameRun: boolean;
}

/**
 * Reads it from the pod's status, since the label may be behind. The condition is false before the program starts: if
 * it became false after that, it was true in between. If both happened in one second, the pod counts as never ready.
 */
export function lostReadiness(pod: Pod): LostReadiness {
  const lost = pod.status?.conditions?.filter(({ type, status }) => DECISIVE.includes(type) && status !== "True") ?? [];
  const lostAt = Math.max(0, ...lost.map(({ lastTransitionTime }) => Date.parse(lastTransitionTime ?? "") || 0));
  const program = programStatus(pod);
  const starts = [program?.lastState?.terminated, program?.state?.running, program?.state?.terminated];
  // The time of a failed start is in 1970.
  const startedAt = starts.map((state) => Date.parse(state?.startedAt ?? "")).find((time) => time > 0);
  const runningSince = Date.parse(program?.state?.running?.startedAt ?? "");
  return { lostAt, wasReady: startedAt !== undefined && lostAt > startedAt, isSameRun: lostAt > runningSince };
}
