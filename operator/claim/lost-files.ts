import type { Claim } from "../../crds/claim.ts";
import { givenOverlayId, hasLostFiles } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { OperatorContext } from "../context.ts";
import { RESTORE_GATE, TOOLS_CONTAINER, TOOLS_IMAGE_BUSYBOX } from "../snapshots/pod-tools.ts";
import { waitsForFiles } from "./restore-files.ts";

const ASK_LIMIT_MS = 10_000;

/**
 * Why the files that the tenant of an Active claim was given are not in its pod any more; undefined where they are, or
 * may be. A pod that starts anew with its files passes the place where it would wait for them, and one without them
 * stays there, so a pod that starts is asked.
 *
 * @throws as `Exec` does
 */
export async function lostFiles(
  claim: Claim,
  pod: Pod,
  { exec, config }: OperatorContext,
): Promise<string | undefined> {
  const why = `pod "${pod.metadata.name}" came back without its files`;
  if (hasLostFiles(pod, claim)) return why;
  if (exec === undefined || givenOverlayId(pod, claim) === undefined || !waitsForFiles(pod)) return undefined;
  const command = [TOOLS_IMAGE_BUSYBOX, "test", "-p", RESTORE_GATE];
  const target = { namespace: config.namespace, pod: pod.metadata.name, container: TOOLS_CONTAINER, command };
  const { exitCode } = await exec({ ...target, timeoutMs: ASK_LIMIT_MS });
  return exitCode === 0 ? why : undefined;
}
