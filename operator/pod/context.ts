import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { type BackgroundWork, createBackgroundWork } from "../background-work.ts";
import type { OperatorConfig } from "../config.ts";
import type { OperatorContext } from "../context.ts";
import type { IndexedBy } from "../informers.ts";
import { createNodeSilence, type NodeSilence } from "./node-silence.ts";
import { createProgramRuns, type ProgramRuns } from "./program-runs.ts";
import { type NodeCache, zonedIndex } from "./zones.ts";

const ENDS_AT_ONCE = 32;

export const podIndexes = {
  claims: {
    uid: (claim: Claim) => claim.metadata.uid,
    instance: ({ status }: Claim) => status?.instanceId,
  },
  pods: {
    claimUid: (pod: Pod) => pod.metadata.annotations?.[annotation.claimUid],
    zoned: zonedIndex,
  },
};

/** Memory about pods, until they are gone. */
export interface PodMemory {
  /** Uids of warm pods that a claim is taking now. */
  reservedPods: Set<string>;
  /** Pods whose labels or annotations were edited, as they were before the edit, by uid, until they are repaired. */
  editedPods: Map<string, Pod>;
  nodeSilence: NodeSilence;
  programRuns: ProgramRuns;
  /** By pod uid: launchers of deleted pods that are told that nothing is left to save. */
  launcherEnds: BackgroundWork<void>;
}

export interface PodContext extends OperatorContext, PodMemory {
  informers: OperatorContext["informers"] & IndexedBy<typeof podIndexes> & { readonly nodes: NodeCache };
  /** Requests a reconcile of the claim. */
  enqueueClaim(claim: Claim): void;
}

export function createPodMemory({ nodeTimeoutMs }: Pick<OperatorConfig, "nodeTimeoutMs">): PodMemory {
  return {
    reservedPods: new Set(),
    editedPods: new Map(),
    nodeSilence: createNodeSilence({ limitMs: nodeTimeoutMs }),
    programRuns: createProgramRuns(),
    launcherEnds: createBackgroundWork({ concurrency: ENDS_AT_ONCE }),
  };
}

/** Call this when the pod is gone. */
export function forgetPod({ metadata: { uid = "" } }: Pod, memory: PodMemory): void {
  memory.reservedPods.delete(uid);
  memory.editedPods.delete(uid);
  memory.nodeSilence.forget(uid);
  memory.programRuns.forget(uid);
  memory.launcherEnds.forget(uid);
}
