import { isDeepStrictEqual } from "node:util";
import { isAlreadyExists } from "../../crds/client/api-error.ts";
import { persistentVolumeClaims, pods } from "../../crds/client/built-in-resources.ts";
import { withDefaults } from "../../crds/defaults.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import { hasNewPhase } from "../../crds/workload-phase.ts";
import { applyNetworkPolicy } from "../apply-object.ts";
import { type Controller, watch } from "../controller.ts";
import type { ReconcileResult } from "../queue.ts";
import type { SnapshotsContext } from "./context.ts";
import { hasVolume } from "./has-store.ts";
import {
  type HelperProgram,
  isHelperOutdated,
  renderSnapshotsClaim,
  renderSnapshotsPod,
  renderSnapshotsPolicy,
} from "./helper-pod.ts";
import { findHelperProgram } from "./helper-program.ts";
import { reconcileArchives } from "./reconcile-archives.ts";
import { ensureStoreSecret } from "./store-secret.ts";

// A new leader has more urgent work first.
const FIRST_SWEEP_MS = 60_000;

/** Reconciles the helper pod and the snapshots volume. */
export function createHelperController(context: SnapshotsContext): Controller<"helper"> {
  const { informers, helperStart, snapshots } = context;
  // The image of a running pod does not change.
  let known: HelperProgram | undefined;
  const findProgram = async (): Promise<HelperProgram> => {
    known ??= await findHelperProgram(context);
    return known;
  };
  return {
    name: "helper",
    priority: 3,
    concurrency: 1,
    // Start also without a workload that saves files: the volume may exist.
    initial: [{ key: SNAPSHOTS_NAME }],
    watches: [
      watch(informers.pods, ({ type, object }) => {
        if (type === "deleted") snapshots.forgetPod(object);
        return [];
      }),
      watch(informers.helperPods, () => [SNAPSHOTS_NAME]),
      watch(informers.workloads, (change) => (hasNewPhase(change) ? [SNAPSHOTS_NAME] : [])),
      watch(informers.networkPolicies, ({ object }) =>
        object.metadata.name === SNAPSHOTS_NAME ? [SNAPSHOTS_NAME] : [],
      ),
    ],
    async reconcile() {
      try {
        const result = await reconcileHelper(context, findProgram);
        helperStart.isFailing = false;
        return result;
      } catch (error) {
        helperStart.isFailing = true;
        helperStart.announce();
        throw error;
      }
    },
  };
}

/** Deletes unused archives at intervals. */
export function createArchivesController(context: SnapshotsContext): Controller<"archives"> {
  return {
    name: "archives",
    priority: 3,
    concurrency: 1,
    initial: [{ key: "all", afterMs: FIRST_SWEEP_MS }],
    watches: [],
    reconcile: (_key, { signal }) => reconcileArchives(context, signal),
  };
}

/**
 * Creates the helper pod, its volume and its network policy with the first workload that saves files or takes an
 * uploaded build context, and keeps the pod running. It never deletes the volume, since archives outlive their
 * workloads. While the volume exists, the pod runs.
 */
async function reconcileHelper(
  context: SnapshotsContext,
  findProgram: () => Promise<HelperProgram>,
): Promise<ReconcileResult> {
  const { cluster, informers, config, log, metrics } = context;
  const { namespace } = config;
  const { place } = config.snapshots.store;
  if (place.kind !== "volume") return undefined;
  const isThere = await hasVolume(context);
  context.helperStart.hasVolume = isThere;
  if (!isThere && !keepsFiles(context)) return undefined;

  const policy = renderSnapshotsPolicy({ namespace, access: place.access });
  const present = informers.networkPolicies.store.get({ namespace, name: SNAPSHOTS_NAME });
  if (!isDeepStrictEqual(present?.spec, policy.spec)) await applyNetworkPolicy(policy, { present, cluster });
  const requeueAfterMs = await ensureStoreSecret({
    ...{ cluster, namespace, nowMs: context.serverNow(), log },
    onCertificate: (times) => metrics.keepCertificate({ use: "snapshots" }, times),
  });
  const { size, storageClass } = config.snapshots;
  const volume = renderSnapshotsClaim({ namespace, size, storageClass });
  if (!isThere) {
    context.snapshots.forgetVolume();
    await ignoreExisting(cluster(persistentVolumeClaims).create(volume));
    context.helperStart.hasVolume = true;
  }

  const pod = informers.helperPods.store.get({ namespace, name: SNAPSHOTS_NAME });
  const program = await findProgram();
  const wanted = renderSnapshotsPod({ namespace, program, logLevel: config.logLevel });
  if (context.helperStart.wanted === undefined) {
    context.helperStart.wanted = wanted;
    context.helperStart.announce();
  }
  if (pod === undefined) {
    await ignoreExisting(cluster(pods).create(wanted));
    return { requeueAfterMs };
  }
  const hasEnded = pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded";
  if (pod.metadata.deletionTimestamp !== undefined || !(hasEnded || isHelperOutdated(pod, wanted)))
    return { requeueAfterMs };
  // The event of the pod's end starts the next run.
  const deletion = await cluster(pods).of(pod).delete();
  if (deletion.error !== undefined) throw deletion.error;
  return { requeueAfterMs };
}

function keepsFiles({ config, informers }: SnapshotsContext): boolean {
  for (const { spec } of informers.workloads.store.values()) {
    const { dockerfile, context } = spec.image;
    // An uploaded build context is stored there too.
    if (config.builds !== undefined && dockerfile !== undefined && context === undefined) return true;
    if (withDefaults(spec).filesystem.overlayDirs.length > 0) return true;
  }
  return false;
}

async function ignoreExisting<T>(created: Promise<T>): Promise<T | undefined> {
  try {
    return await created;
  } catch (error) {
    if (isAlreadyExists(error)) return undefined;
    throw error;
  }
}
