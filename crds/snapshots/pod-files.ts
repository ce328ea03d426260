import type { PreSave } from "../defaults.ts";
import type { Pod } from "../kubernetes.ts";
import { annotation } from "../labels.ts";

/** What of a pod's files is archived, as it was when the pod was made: its workload may be another by now, or gone. */
export interface PodFiles {
  readonly overlayDirs: readonly string[];
  /** What they may hold together, in GiB. */
  readonly diskGb: number;
  /** What its program asks to be run before each save. */
  readonly preSave: PreSave | undefined;
}

/** Reads what was stamped on the pod; no directories where nothing of it is kept. */
export function podFiles({ metadata: { annotations } }: Pod): PodFiles {
  const stamped = annotations?.[annotation.overlayDirs];
  const preSave = annotations?.[annotation.preSave];
  return {
    overlayDirs: stamped === undefined ? [] : (JSON.parse(stamped) as string[]),
    diskGb: Number(annotations?.[annotation.diskGb] ?? 1),
    preSave: preSave === undefined ? undefined : (JSON.parse(preSave) as PreSave),
  };
}
