import type { Claim } from "../../crds/claim.ts";
import { givenOverlayId, hasLostFiles } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { RESTORE_GATE, TOOLS_CONTAINER, TOOLS_IMAGE_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import { askPod, type PodAnswer } from "./ask-pod.ts";
import type { ClaimContext } from "./context.ts";
import { waitsForFiles } from "./restore-files.ts";

const ASK_LIMIT_MS = 10_000;

/**
 * Whether the pod of an Active claim has lost the restored files. A pod that restarts with its files passes the restore
 * gate; a pod without them waits there. So a pod that starts is asked, by exec; a node that restarts has many such pods.
 *
 * @returns why the files are lost, undefined if they are not
 */
export function lostFiles(claim: Claim, pod: Pod, context: ClaimContext): PodAnswer<string | undefined> {
  const { exec, config, fileChecks } = context;
  const why = `pod "${pod.metadata.name}" came back without its files`;
  if (hasLostFiles(pod, claim)) return { isKnown: true, value: why };
  if (exec === undefined || givenOverlayId(pod, claim) === undefined || !waitsForFiles(pod))
    return { isKnown: true, value: undefined };
  const command = [TOOLS_IMAGE_BUSYBOX, "test", "-p", RESTORE_GATE];
  const target = { namespace: config.namespace, pod: pod.metadata.name, container: TOOLS_CONTAINER, command };
  const ask = async () => (await exec({ ...target, timeoutMs: ASK_LIMIT_MS })).exitCode === 0;
  const answer = askPod({ claim, pod, ask }, fileChecks, context);
  return answer.isKnown ? { isKnown: true, value: answer.value ? why : undefined } : answer;
}
