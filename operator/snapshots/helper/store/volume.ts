import { systemClock } from "../../../../crds/client/clock.ts";
import { createTurns } from "./turns.ts";
import { createVolumeChanges } from "./volume-changes.ts";
import { createVolumeCheckpoints } from "./volume-checkpoints.ts";
import { createVolumeCommits, type VolumeCommits } from "./volume-commits.ts";
import { createVolumeContexts, type VolumeContexts } from "./volume-contexts.ts";
import { createVolumeDeletions, type VolumeDeletions } from "./volume-deletions.ts";
import { type ReadSpace, readSpace } from "./volume-files.ts";
import { createVolumeList, type VolumeList } from "./volume-list.ts";
import { createVolumeNames, type VolumeNames } from "./volume-names.ts";
import { createVolumeOwner, type VolumeOwner } from "./volume-owner.ts";
import { createVolumeRecords, type VolumeRecords } from "./volume-records.ts";
import { createVolumeState, type VolumeState } from "./volume-state.ts";
import { createVolumeSweep, type VolumeSweep } from "./volume-sweep.ts";
import { createVolumeTenants } from "./volume-tenants.ts";
import { createVolumeUploads, type VolumeUploads } from "./volume-uploads.ts";
import { createVolumeUsage, type VolumeUsage } from "./volume-usage.ts";

/**
 * The archives, build contexts and usage records in a folder. Only commands of an earlier version change the folder
 * beside this.
 */
export interface Volume
  extends Pick<VolumeState, "look" | "open" | "isMarked">,
    Pick<VolumeUploads, "receive" | "receiveKept" | "compose" | "discard">,
    VolumeCommits,
    VolumeDeletions,
    VolumeNames,
    Omit<VolumeContexts, "holdsContext">,
    VolumeRecords,
    Pick<VolumeList, "list" | "names">,
    Pick<VolumeSweep, "touch" | "tidy"> {
  readonly space: ReadSpace;
  usage: VolumeUsage["all"];
  /**
   * Call this at the start. If the volume has its mark, other servers can change nothing any more, and their uploads
   * are deleted.
   */
  takeOver: VolumeOwner["take"];
}

export interface VolumeOptions {
  readonly root: string;
  /** Of the pod that runs this process. @default it runs in no pod */
  readonly podUid?: string | undefined;
  /** @default from the file system */
  readonly space?: ReadSpace | undefined;
  readonly now?: (() => number) | undefined;
}

export function createVolume(options: VolumeOptions): Volume {
  const { root, podUid, space = () => readSpace(root), now = systemClock.now } = options;
  const owner = createVolumeOwner(root);
  const turns = createTurns();
  const state = createVolumeState(root, owner);
  const tenants = createVolumeTenants({ root });
  const uploads = createVolumeUploads({ state, tenants, turns, now });
  const { list, listTenant, names } = createVolumeList({ state, tenants, turns });
  const { touch, dropFormer, tidy: sweep } = createVolumeSweep({ state, tenants, owner, turns, now });
  const usage = createVolumeUsage({ tenants, turns, listTenant });
  const checkpoints = createVolumeCheckpoints({ state, owner, uploads, usage });
  const changeIn = createVolumeChanges({ state, tenants, owner, podUid, turns });
  const changes = { state, uploads, owner, podUid, usage, checkpoints, turns, now };
  const { look, open, isMarked } = state;
  const { receive, receiveKept, compose } = uploads;
  const { holdsContext, ...contexts } = createVolumeContexts({ root, space, turns, now });
  return {
    ...{ look, open, isMarked, receive, receiveKept, compose, list, names, touch, space },
    ...createVolumeCommits(changes),
    ...createVolumeDeletions({ ...changes, changeIn }),
    ...createVolumeNames({ state, owner, changeIn }),
    ...contexts,
    ...createVolumeRecords({ root, turns }),
    discard: (key, id) => turns.take(key.tenantId, () => uploads.discard(key, id)),
    usage: usage.all,
    async takeOver() {
      // A volume without its mark may be the wrong one: write nothing to it.
      if (!(await state.isMarked())) return;
      await owner.take();
      await dropFormer((path) => uploads.holds(path) || holdsContext(path));
    },
    async tidy() {
      await sweep();
      await usage.recount();
    },
  };
}
