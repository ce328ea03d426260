import { isProgramRunning } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { PodContext } from "../pod/context.ts";
import { TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import { keepsFiles, LAUNCHER_FOLDER } from "./launch-command.ts";

const LIMIT_MS = 10_000;
const PIPE = `/${LAUNCHER_FOLDER}/wake`;

/**
 * Lets the container of a pod that is being deleted end as soon as its program has, since nothing is left to save. In
 * the background: where it fails, the pod's grace period ends the container.
 */
export function endLauncher(pod: Pod, context: Pick<PodContext, "config" | "exec" | "launcherEnds" | "log">): void {
  const { config, exec, launcherEnds, log } = context;
  if (exec === undefined || !keepsFiles(pod.spec) || !isProgramRunning(pod)) return;
  const { name, uid = "" } = pod.metadata;
  const command = [TOOLS_BUSYBOX, "sh", "-c", `[ ! -p ${PIPE} ] || echo end > ${PIPE}`];
  const target = { namespace: config.namespace, pod: name, container: WORKLOAD_CONTAINER, command };
  launcherEnds.run(
    uid,
    async (signal) => {
      try {
        await exec({ ...target, signal, timeoutMs: LIMIT_MS });
      } catch (error) {
        // Most often the container has ended.
        if (!signal.aborted) log.debug({ pod: name, error }, "launcher was not told to end");
      }
    },
    () => undefined,
  );
}
