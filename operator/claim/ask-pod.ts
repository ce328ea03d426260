import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { BackgroundWork, Work } from "../background-work.ts";
import type { ReconcileResult } from "../queue.ts";
import type { ClaimContext } from "./context.ts";

/** What a pod answered; or, if that is unknown, when to ask again. */
export type PodAnswer<T> =
  | { readonly isKnown: true; readonly value: T }
  | { readonly isKnown: false; readonly result: ReconcileResult };

/**
 * Asks the pod of a claim in the background, since it may answer slowly. The answer starts the claim's next run, and
 * counts only for that run. After a failure the pod is asked again.
 */
export function askPod<T>(
  { claim, pod, ask }: { claim: Claim; pod: Pod; ask: Work<T> },
  checks: BackgroundWork<T>,
  { enqueueClaim }: Pick<ClaimContext, "enqueueClaim">,
): PodAnswer<T> {
  const { uid = "" } = pod.metadata;
  const answer = checks.run(uid, ask, () => enqueueClaim(claim));
  switch (answer.state) {
    case "running":
      return { isKnown: false, result: undefined };
    case "failed":
      return { isKnown: false, result: { requeueAfterMs: answer.retryInMs } };
    case "done":
      checks.forget(uid);
      return { isKnown: true, value: answer.value };
    default:
      return answer satisfies never;
  }
}
