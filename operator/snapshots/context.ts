import type { Claim } from "../../crds/claim.ts";
import { claimKey } from "../../crds/claims/claim-key.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { SNAPSHOTS_LABELS } from "../../crds/snapshots/store-folder.ts";
import { createDeferred } from "../../crds/waits.ts";
import type { OperatorContext } from "../context.ts";
import type { IndexedBy, StartInformer } from "../informers.ts";
import type { Snapshots } from "./snapshots.ts";

export const snapshotIndexes = {
  claims: { key: ({ spec }: Claim) => claimKey(spec) },
};

export interface SnapshotsContext extends OperatorContext {
  informers: OperatorContext["informers"] & IndexedBy<typeof snapshotIndexes> & SnapshotInformers;
  snapshots: Snapshots;
  helperStart: HelperStart;
}

export interface SnapshotInformers {
  /** The one pod that mounts the snapshots volume. */
  readonly helperPods: Informer<Pod, never>;
}

/** The start of the helper pod. */
export interface HelperStart {
  /** The pod as this operator renders it; undefined until its Secret is filled. A pod that differs will be replaced. */
  wanted: Pod | undefined;
  /**
   * Whether the last try to fill its Secret, or to create or replace it, failed: a running helper pod may then stay.
   */
  isFailing: boolean;
  /** Whether its volume exists, by the API server's last answer; undefined before the first. */
  hasVolume: boolean | undefined;
  /** Resolves at the next announcement. */
  next(): Promise<void>;
  announce(): void;
}

export function startSnapshotInformers(start: StartInformer): SnapshotInformers {
  const labelSelector = Object.entries(SNAPSHOTS_LABELS)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  return { helperPods: start({ resource: pods, labelSelector, indexes: {} }) };
}

export function createHelperStart(): HelperStart {
  let start = createDeferred<void>();
  return {
    ...{ wanted: undefined, isFailing: false, hasVolume: undefined },
    next: () => start.promise,
    announce() {
      start.resolve();
      start = createDeferred();
    },
  };
}
