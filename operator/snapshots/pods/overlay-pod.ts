import { createGunzip, type Gunzip } from "node:zlib";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import type { Pace } from "../../../crds/client/exec/pace-meter.ts";
import { TOOLS_BUSYBOX } from "./pod-tools.ts";

/** A container with the tools and the overlay directories of `podTools`. */
export interface OverlayPod extends Omit<ExecTarget, "command"> {
  /** @default `TOOLS_BUSYBOX` */
  readonly busybox?: string | undefined;
  /** The folder above the overlay directories, for tests. @default "/" */
  readonly root?: string | undefined;
}

/** The least pace of a tenant's pod: a slower one would hold a slot that other tenants wait for. */
export const POD_PACE: Pace = { bytesPerSecond: 64 * 1024, overMs: 60_000 };

/** The command that runs a script in the pod, with busybox, the root and the overlay directories as its parameters. */
export function overlayCommand(pod: OverlayPod, script: string, roots: readonly string[]): ExecTarget {
  return podCommand(
    pod,
    script,
    roots.map((path) => Buffer.from(path, "latin1").toString("utf8")),
  );
}

/** The command that runs a script in the pod, with busybox, the root and the words as its parameters. */
export function podCommand(pod: OverlayPod, script: string, words: readonly string[]): ExecTarget {
  const { namespace, pod: name, container, busybox = TOOLS_BUSYBOX, root = "/" } = pod;
  return {
    namespace,
    pod: name,
    container,
    command: [busybox, "sh", "-c", script, "overlay", busybox, root, ...words],
  };
}

/**
 * Each piece of output is a task of Node's thread pool, which costs more than the work itself: pieces of 16 KiB, the
 * default, take 7 ms per MiB instead of 1 ms.
 */
const chunkSize = 256 * 1024;

export const decompress = (): Gunzip => createGunzip({ chunkSize });
