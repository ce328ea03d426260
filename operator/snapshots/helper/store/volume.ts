import { systemClock } from "../../../../crds/client/clock.ts";
import { createTurns } from "./turns.ts";
import { createVolumeCommits, type VolumeCommits } from "./volume-commits.ts";
import { createVolumeContexts, type VolumeContexts } from "./volume-contexts.ts";
import { type ReadSpace, readSpace } from "./volume-files.ts";
import { createVolumeList, type VolumeList } from "./volume-list.ts";
import { createVolumeOwner, type VolumeOwner } from "./volume-owner.ts";
import { createVolumeState, type VolumeState } from "./volume-state.ts";
import { createVolumeSweep, type VolumeSweep } from "./volume-sweep.ts";
import { createVolumeTenants } from "./volume-tenants.ts";
import { createVolumeUploads, type VolumeUploads } from "./volume-uploads.ts";
import { createVolumeUsage, type VolumeUsage } from "./volume-usage.ts";

/** The archives and build contexts in a folder, which no other process changes but the commands of an earlier version. */
export interface Volume
  extends Pick<VolumeState, "look" | "open">,
    Pick<VolumeUploads, "receive" | "receiveKept" | "discard">,
    VolumeCommits,
    Omit<VolumeContexts, "holdsContext">,
    Pick<VolumeList, "list" | "names">,
    Pick<VolumeSweep, "touch" | "tidy"> {
  readonly space: ReadSpace;
  usage: VolumeUsage["all"];
  /**
   * To be called at the start: other servers change nothing any more on a volume that has its mark, and what they have
   * received goes.
   */
  takeOver: VolumeOwner["take"];
}

export interface VolumeOptions {
  readonly root: string;
  /** Of the pod that this runs in. @default it runs in none */
  readonly podUid?: string | undefined;
  /** @default what the file system says */
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
  const usage = createVolumeUsage({ tenants, turns, listTenant: (tenantId) => listTenant(tenantId, true) });
  const { look, open } = state;
  const { receive, receiveKept } = uploads;
  const { holdsContext, ...contexts } = createVolumeContexts({ root, space, turns, now });
  return {
    ...{ look, open, receive, receiveKept, list, names, touch, space },
    ...createVolumeCommits({ state, tenants, uploads, owner, podUid, usage, turns, now }),
    ...contexts,
    discard: (key, id) => turns.take(key.tenantId, () => uploads.discard(key, id)),
    usage: usage.all,
    async takeOver() {
      // Nothing is written to one that may be another than the one with the archives.
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
