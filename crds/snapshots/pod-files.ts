import type { PreSave } from "../defaults.ts";
import type { Pod } from "../kubernetes.ts";
import { annotation } from "../labels.ts";

/**
 * Which files of a pod are archived, as recorded when the pod was created: its workload may have changed since, or been
 * deleted.
 */
export interface PodFiles {
  readonly overlayDirs: readonly string[];
  /** How much they may hold together, in GiB. */
  readonly diskGb: number;
  /** The workload's `preSave`, which is run before each save. */
  readonly preSave: PreSave | undefined;
}

/** Reads the annotations of the pod. Without overlay directories, none of its files is archived. */
export function podFiles({ metadata: { annotations } }: Pod): PodFiles {
  const stamped = annotations?.[annotation.overlayDirs];
  const preSave = annotations?.[annotation.preSave];
  return {
    overlayDirs: stamped === undefined ? [] : (JSON.parse(stamped) as string[]),
    diskGb: Number(annotations?.[annotation.diskGb] ?? 1),
    preSave: preSave === undefined ? undefined : (JSON.parse(preSave) as PreSave),
  };
}
