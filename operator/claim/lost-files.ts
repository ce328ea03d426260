import type { Claim } from "../../crds/claim.ts";
import { givenOverlayId, hasLostFiles } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { ReconcileResult } from "../queue.ts";
import { RESTORE_GATE, TOOLS_CONTAINER, TOOLS_IMAGE_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import type { ClaimContext } from "./context.ts";
import { waitsForFiles } from "./restore-files.ts";

const ASK_LIMIT_MS = 10_000;

/** Why the files are lost, undefined if they are not; or, if that is unknown, when to ask again. */
export type LostFiles =
  | { readonly isKnown: true; readonly why: string | undefined }
  | { readonly isKnown: false; readonly result: ReconcileResult };

/**
 * Whether the pod of an Active claim has lost the restored files. A pod that restarts with its files passes the restore
 * gate; a pod without them waits there. So a pod that starts is asked, by exec. This runs in the background: a node
 * that restarts has many such pods, and each may answer slowly. The answer starts the claim's next run, and counts only
 * for that run.
 */
export function lostFiles(claim: Claim, pod: Pod, context: ClaimContext): LostFiles {
  const { exec, config, fileChecks } = context;
  const why = `pod "${pod.metadata.name}" came back without its files`;
  if (hasLostFiles(pod, claim)) return { isKnown: true, why };
  if (exec === undefined || givenOverlayId(pod, claim) === undefined || !waitsForFiles(pod))
    return { isKnown: true, why: undefined };
  const command = [TOOLS_IMAGE_BUSYBOX, "test", "-p", RESTORE_GATE];
  const target = { namespace: config.namespace, pod: pod.metadata.name, container: TOOLS_CONTAINER, command };
  const ask = async () => (await exec({ ...target, timeoutMs: ASK_LIMIT_MS })).exitCode === 0;
  const { uid = "" } = pod.metadata;
  const answer = fileChecks.run(uid, ask, () => context.enqueueClaim(claim));
  switch (answer.state) {
    case "running":
      return { isKnown: false, result: undefined };
    case "failed":
      return { isKnown: false, result: { requeueAfterMs: answer.retryInMs } };
    case "done":
      fileChecks.forget(uid);
      return { isKnown: true, why: answer.value ? why : undefined };
    default:
      return answer satisfies never;
  }
}
