import type { ExecTarget } from "../client/exec/exec-outcome.ts";

/** Where archives are kept: a container with busybox, and the folder in it that the snapshots volume is mounted at. */
export interface StoreFolder extends Omit<ExecTarget, "command"> {
  /** The path of busybox in the container. @default "/bin/busybox" */
  readonly busybox?: string | undefined;
  /** @default "/snapshots" */
  readonly root?: string | undefined;
}

/** The command that runs one of the store's scripts there, killed when it takes longer than `limitMs` milliseconds. */
export function storeCommand(
  folder: StoreFolder,
  options: { script: string; words: readonly string[]; limitMs: number },
): ExecTarget {
  const { namespace, pod, container, busybox = "/bin/busybox", root = "/snapshots" } = folder;
  const seconds = String(Math.ceil(options.limitMs / 1000));
  const shell = [busybox, "sh", "-c", options.script, "store", busybox, root, ...options.words];
  return { namespace, pod, container, command: [busybox, "timeout", seconds, ...shell] };
}

/** The name of the helper pod, of its volume claim and of its network policy. */
export const SNAPSHOTS_NAME = "tenancy-snapshots";

/** The helper pod's one container. */
export const SNAPSHOTS_CONTAINER = "snapshots";

/** Tells the helper pod from instances, which carry `tenancy.dev/managed`. */
export const SNAPSHOTS_LABELS = { "app.kubernetes.io/name": SNAPSHOTS_NAME };
