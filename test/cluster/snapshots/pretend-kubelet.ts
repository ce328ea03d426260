import { randomBytes } from "node:crypto";
import { OVERLAY_ID_MESSAGE } from "../../../crds/claims/claim-pod.ts";
import { isConflict, isNotFound, NetworkError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { startInformer } from "../../../crds/client/watch/informer.ts";
import { HistoryError } from "../../../crds/client/watch/listing.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { TOOLS_CONTAINER } from "../../../operator/snapshots/pods/pod-tools.ts";
import { NAMESPACE } from "../tenancy.ts";

/**
 * Starts pods that no node takes, and keeps what their tenants write: one text for all of a pod's overlay directories.
 */
export interface PretendKubelet {
  /** By pod uid; of pods that are there alone. */
  readonly files: Map<string, string>;
  /** What names their overlay directories, by pod uid. */
  readonly overlayIds: ReadonlyMap<string, string>;
  isHelperRunning(): boolean;
  /** Lets the program of a pod start that waits for its files. */
  openGate(pod: Pod): Promise<void>;
  stop(): Promise<void>;
}

export async function startPretendKubelet(client: ClusterClient): Promise<PretendKubelet> {
  const stopping = new AbortController();
  const files = new Map<string, string>();
  const overlayIds = new Map<string, string>();
  const work = new Set<Promise<void>>();
  let helper: string | undefined;

  const informer = startInformer<Pod, never>({
    ...{ client, namespace: NAMESPACE, resource: pods, indexes: {}, signal: stopping.signal },
    onChange({ type, object }) {
      const { uid = "", name } = object.metadata;
      if (type === "deleted") {
        files.delete(uid);
        overlayIds.delete(uid);
        if (helper === uid) helper = undefined;
      } else if (type === "added") {
        const started: Promise<void> = start(object, name === SNAPSHOTS_NAME).finally(() => work.delete(started));
        work.add(started);
      }
    },
  });
  const ended = informer.done.catch((error: unknown) => {
    if (!(error instanceof HistoryError)) throw error;
  });
  await informer.synced;

  async function start(pod: Pod, isHelper: boolean): Promise<void> {
    const { uid = "" } = pod.metadata;
    const init = pod.spec.initContainers?.find(({ name }) => name === TOOLS_CONTAINER);
    if (!isHelper) files.set(uid, "");
    if (init?.command?.at(-1)?.includes("mkfifo") !== true) await run(pod);
    else {
      const state = { running: { startedAt: new Date().toISOString() } };
      const status = { name: init.name, image: init.image, imageID: "", ready: false, restartCount: 0, state };
      await report(pod, { phase: "Pending", initContainerStatuses: [status] });
    }
    if (isHelper) helper = uid;
  }

  async function run(pod: Pod): Promise<void> {
    const { uid = "" } = pod.metadata;
    const overlayId = overlayIds.get(uid) ?? randomBytes(16).toString("hex");
    overlayIds.set(uid, overlayId);
    const state = { running: { startedAt: new Date().toISOString() } };
    await report(pod, {
      phase: "Running",
      podIP: "10.64.0.1",
      conditions: [{ type: "Ready", status: "True" }],
      ...(pod.spec.initContainers !== undefined && {
        initContainerStatuses: pod.spec.initContainers.map(({ name, image }) => ({
          ...{ name, image, imageID: "", ready: true, restartCount: 0 },
          state: { terminated: { exitCode: 0, message: `${OVERLAY_ID_MESSAGE}${overlayId}` } },
        })),
      }),
      containerStatuses: pod.spec.containers.map(({ name, image }) => {
        return { name, image, imageID: "", ready: true, started: true, restartCount: 0, state };
      }),
    });
  }

  async function report({ metadata: { name, uid } }: Pod, status: object): Promise<void> {
    try {
      const body = { metadata: { uid }, status };
      await client.patch(pods, { namespace: NAMESPACE, name }, { type: "merge", subresource: "status", body });
    } catch (error) {
      // It was deleted meanwhile, and another may have its name.
      if (!isNotFound(error) && !isConflict(error) && !(error instanceof NetworkError)) throw error;
    }
  }

  return {
    ...{ files, overlayIds },
    isHelperRunning: () => helper !== undefined,
    openGate: run,
    async stop() {
      stopping.abort();
      await Promise.all([ended, ...work]);
    },
  };
}
