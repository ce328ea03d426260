import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Claim } from "../../../crds/claim.ts";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { events, pods } from "../../../crds/client/built-in-resources.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

const LIMIT_MS = 180_000;
/** Listing pods again and again would slow down what is waited for. */
const LIST_MS = 20;

/** The newest archive for a claim as it is in the store; undefined when there is none. */
export async function archiveOf(
  { store, objects, volumeFolder }: Pick<Lifecycle, "store" | "objects" | "volumeFolder">,
  { spec: { tenantId, workloadRef } }: Pick<Claim, "spec">,
): Promise<Buffer | undefined> {
  if (objects === undefined) {
    const path = join(volumeFolder, tenantId, `${workloadRef}.tar.gz`);
    return existsSync(path) ? readFileSync(path) : undefined;
  }
  const key = { tenantId, workloadRef };
  const call = { signal: AbortSignal.timeout(LIMIT_MS), timeoutMs: LIMIT_MS };
  const { newest } = await store.look(key, call);
  const opened = newest && (await store.open(key, newest.sha256, call));
  if (opened === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of opened.content) parts.push(part);
  return Buffer.concat(parts);
}

/** The first overlay directory of a pod, on its node. */
export function firstOverlayOf({ cluster, inNode }: Pick<Lifecycle, "cluster" | "inNode">, { metadata }: Pod): string {
  const volume = `${metadata.uid}/volumes/kubernetes.io~empty-dir/tenancy-overlay-0`;
  return inNode(join(clusterFolder(cluster.name), "kubelet/pods", volume));
}

/**
 * What goes wrong on a real cluster, and what can be seen of it. Of object storage it is the server to which happens what
 * happens to the helper pod.
 */
export interface Faults {
  /** Freezes every process of the helper pod, which looks as a network that is cut. */
  freezeHelper(): Promise<void>;
  /** Takes that back; nothing when it is not frozen. */
  thawHelper(): Promise<void>;
  /** Deletes the helper pod as a node that is lost does: at once. */
  killHelper(): Promise<void>;
  /** Kills the program of the helper pod, which the kubelet starts again. */
  endHelper(): Promise<void>;
  /** Waits until an archive is being written, and not yet there. */
  untilSaving(tenantId: string): Promise<void>;
  /** Waits until files have begun to arrive in the first overlay directory of a claim's pod; resolves with the pod. */
  untilRestoring(claim: Claim): Promise<Pod>;
  /** Waits for an Event about a claim. */
  untilEvent(claim: Claim, reason: string): Promise<void>;
  /** The pods that are bound to a claim and not being deleted. */
  podsOf(claim: Claim): Promise<Pod[]>;
}

export function createFaults(life: Lifecycle): Faults {
  const { client, cluster, objects, volumeFolder } = life;
  let frozen: Freezer | undefined;

  async function pidOf(containerId: string): Promise<string> {
    const tasks = await runCommand("ctr", ["-a", cluster.containerdSocket, "-n", "k8s.io", "tasks", "list"]);
    const [, pid = ""] = new RegExp(`^${containerId}\\s+(\\d+)`, "m").exec(tasks) ?? [];
    return pid;
  }

  async function helperPid(): Promise<string> {
    const { status } = await life.untilHelperRuns();
    return await pidOf(status?.containerStatuses?.[0]?.containerID?.replace("containerd://", "") ?? "");
  }

  async function podsOf({ metadata: { uid } }: Claim): Promise<Pod[]> {
    const { items } = await client.list(pods, { namespace: NAMESPACE });
    return items.filter(
      ({ metadata }) => metadata.annotations?.[annotation.claimUid] === uid && metadata.deletionTimestamp === undefined,
    );
  }

  return {
    podsOf,
    async endHelper() {
      if (objects !== undefined) return await objects.kill();
      process.kill(Number(await helperPid()), "SIGKILL");
    },
    async freezeHelper() {
      if (objects !== undefined) return objects.freeze();
      frozen = freezerOf(await helperPid());
      writeFileSync(frozen.path, frozen.freeze);
    },
    async thawHelper() {
      objects?.thaw();
      const freezer = frozen;
      frozen = undefined;
      if (freezer !== undefined && existsSync(freezer.path)) writeFileSync(freezer.path, freezer.thaw);
    },
    async killHelper() {
      if (objects !== undefined) return await objects.kill();
      const path = `/api/v1/namespaces/${NAMESPACE}/pods/${SNAPSHOTS_NAME}`;
      try {
        await client.request({ method: "DELETE", path, body: JSON.stringify({ gracePeriodSeconds: 0 }) });
      } catch (error) {
        // It has just been killed.
        if (!isNotFound(error)) throw error;
      }
    },
    async untilSaving(tenantId) {
      await waitFor(`an archive of ${tenantId} to be written`, async () => {
        if (objects !== undefined) return (await objects.isSaving(tenantId)) || undefined;
        return partialIn(join(volumeFolder, tenantId));
      });
    },
    untilRestoring(claim) {
      let pod: Pod | undefined;
      let listedAt = Number.NEGATIVE_INFINITY;
      return waitFor(`files of ${claim.metadata.name} to arrive`, async () => {
        if (performance.now() - listedAt > LIST_MS) {
          [pod] = await podsOf(claim);
          listedAt = performance.now();
        }
        return pod !== undefined && namesIn(firstOverlayOf(life, pod)).length > 0 ? pod : undefined;
      });
    },
    async untilEvent({ metadata: { uid, name } }, reason) {
      const isThere = async () => {
        const { items } = await client.list(events, { namespace: NAMESPACE });
        return items.some((event) => event.reason === reason && event.involvedObject.uid === uid);
      };
      await waitUntil(isThere, { what: `the Event ${reason} of ${name}`, limitMs: LIMIT_MS });
    },
  };
}

interface Freezer {
  readonly path: string;
  readonly freeze: string;
  readonly thaw: string;
}

/**
 * A process's freezer itself: the container runtime's own commands can wait for ever where the container is killed
 * meanwhile.
 */
function freezerOf(pid: string): Freezer {
  const groups = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  const [, first] = /^\d+:freezer:(.*)$/m.exec(groups) ?? [];
  if (first !== undefined)
    return { path: `/sys/fs/cgroup/freezer${first}/freezer.state`, freeze: "FROZEN", thaw: "THAWED" };
  const [, second] = /^0::(.*)$/m.exec(groups) ?? [];
  return { path: `/sys/fs/cgroup${second}/cgroup.freeze`, freeze: "1", thaw: "0" };
}

/** Looks so often that what lasts for half a second is seen in the middle. */
async function waitFor<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  return (await waitUntil(async () => (await look()) ?? false, { what, limitMs: LIMIT_MS, intervalMs: 3 })) as T;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** The archive that is being written to a tenant's folder, once some of it is there. */
export function partialIn(folder: string): string | undefined {
  return namesIn(folder).find((name) => name.endsWith(".partial") && sizeOf(join(folder, name)) > 0);
}

/** In bytes; 0 of a file that is gone by now. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
