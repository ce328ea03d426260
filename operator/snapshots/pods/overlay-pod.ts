import { createGunzip, type Gunzip } from "node:zlib";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import type { Pace } from "../../../crds/client/exec/pace-meter.ts";
import { TOOLS_BUSYBOX } from "./pod-tools.ts";

/** A container with the tools and the overlay directories, as `podTools` renders them. */
export interface OverlayPod extends Omit<ExecTarget, "command"> {
  /** @default `TOOLS_BUSYBOX` */
  readonly busybox?: string | undefined;
  /** What the overlay directories are below, for tests. @default "/" */
  readonly root?: string | undefined;
}

/** What a tenant's pod must keep up with, so that a slow one does not hold a place that others wait for. */
export const POD_PACE: Pace = { bytesPerSecond: 64 * 1024, overMs: 60_000 };

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

/**
 * Each piece of output is a turn of Node's thread pool, which takes longer than the work: of 16 KiB, the default, 7 ms
 * a MiB and not 1.
 */
const chunkSize = 256 * 1024;

export const decompress = (): Gunzip => createGunzip({ chunkSize });
