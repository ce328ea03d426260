import type { ExecTarget } from "../../crds/client/exec-target.ts";
import { TOOLS_BUSYBOX } from "./pod-tools.ts";

/** A container with the tools and the overlay directories, as `podTools` renders them. */
export interface OverlayPod extends Omit<ExecTarget, "command"> {
  /** @default `TOOLS_BUSYBOX` */
  readonly busybox?: string | undefined;
  /** What the overlay directories are below, for tests. @default "/" */
  readonly root?: string | undefined;
}

/** The command that runs a script there, with busybox, the root and the overlay directories as its parameters. */
export function overlayCommand(pod: OverlayPod, script: string, roots: readonly string[]): ExecTarget {
  const { namespace, pod: name, container, busybox = TOOLS_BUSYBOX, root = "/" } = pod;
  const folders = roots.map((path) => Buffer.from(path, "latin1").toString("utf8"));
  return {
    namespace,
    pod: name,
    container,
    command: [busybox, "sh", "-c", script, "overlay", busybox, root, ...folders],
  };
}
