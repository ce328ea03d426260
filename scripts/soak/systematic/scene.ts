import { waitUntil } from "../../cluster/process/wait-until.ts";
import { EMPTY } from "../cluster/pod-files.ts";
import { SMALL } from "../faults/fences.ts";
import { expect } from "../history.ts";
import { APP_IMAGE, CLAIMS_PATH, type Claim, PODS_PATH, POOLS_PATH, type Pod, WORKLOADS_PATH } from "../objects.ts";
import type { OperatedCluster } from "../operators.ts";
import { OWNED_PATHS } from "./end-state.ts";

/** With a port, since a pod without one is ready only after some seconds. */
export const BASE_SPEC = { image: { ref: APP_IMAGE }, resources: SMALL, network: { ports: [8080] } };

/** What users do in one run, whose objects all have its name in theirs. */
export interface Scene {
  workload(spec?: object): Promise<void>;
  pool(size: number, spec?: object): Promise<void>;
  /** Waits until so many pods of one template are ready in the pool. */
  poolReady(size: number): Promise<void>;
  claim(spec?: object): Promise<void>;
  /** Waits until the claim has a pod. */
  active(): Promise<void>;
  /** Writes files as the claim's pod does. */
  write(token: string): Promise<void>;
  release(): Promise<void>;
  /** Waits until the claim and its pod are gone. */
  released(): Promise<void>;
  deletePool(): Promise<void>;
  deleteWorkload(): Promise<void>;
  workloadReady(): Promise<void>;
  /** Waits until the operator has seen the specs; returns whether pods of the workload can be had. */
  observed(): Promise<boolean>;
  /** Deletes all that is left of the run, and waits until it is gone. */
  clear(): Promise<void>;
}

const LIMIT_MS = 120_000;

interface Owned {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly ownerReferences?: readonly { readonly uid: string }[];
  };
}

interface Shown {
  readonly metadata: { readonly generation?: number };
  readonly spec: { readonly size?: number };
  readonly status?: {
    readonly phase?: string;
    readonly observedGeneration?: number;
    readonly ready?: number;
  };
}

/** Returns the scene of one run, whose objects are named after it; users' calls go to the API server itself. */
export function createScene(run: string, { api, pods, checker, history }: OperatedCluster): Scene {
  const claimPath = `${CLAIMS_PATH}/${run}`;
  const poolPath = `${POOLS_PATH}/${run}`;
  const workloadPath = `${WORKLOADS_PATH}/${run}`;

  async function read<T>(path: string): Promise<T | undefined> {
    const { status, text } = await api.call({ method: "GET", path, limitMs: 60_000 });
    if (status === 404) return undefined;
    if (status !== 200) throw new Error(`Cannot read ${path}: status ${status} ${text}`);
    return JSON.parse(text) as T;
  }

  /** Creates an object, or gives the one that there is another spec. */
  async function put(path: string, kind: string, spec: object): Promise<void> {
    const present = await read<{ metadata: object }>(path);
    const metadata = present?.metadata ?? { name: run };
    const body = { apiVersion: "tenancy.dev/v1alpha1", kind, metadata, spec };
    const method = present === undefined ? "POST" : "PUT";
    const to = present === undefined ? path.slice(0, path.lastIndexOf("/")) : path;
    const { status, text } = await api.call({ method, path: to, body, limitMs: 60_000 });
    if (status >= 300) throw new Error(`Cannot ${method} ${to}: status ${status} ${text}`);
  }

  async function remove(path: string): Promise<void> {
    const { status, text } = await api.call({ method: "DELETE", path, limitMs: 60_000 });
    if (status >= 300 && status !== 404) throw new Error(`Cannot delete ${path}: status ${status} ${text}`);
  }

  function until(what: string, isSo: () => Promise<boolean>): Promise<unknown> {
    return waitUntil(isSo, { what: `${what} of ${run}`, limitMs: LIMIT_MS });
  }

  async function ownPods(): Promise<Pod[]> {
    const selector = encodeURIComponent(`tenancy.dev/workload=${run}`);
    return (JSON.parse(await expect(api, "GET", `${PODS_PATH}?labelSelector=${selector}`)) as { items: Pod[] }).items;
  }

  /** Does what the garbage collector does, which does not run here: deletes what belonged to objects that are gone. */
  async function collect(): Promise<void> {
    const owners = await Promise.all([claimPath, workloadPath].map((path) => read<Owned>(path)));
    const uids = new Set(owners.map((owner) => owner?.metadata.uid));
    for (const path of OWNED_PATHS) {
      const { items } = JSON.parse(await expect(api, "GET", path)) as { items: Owned[] };
      for (const { metadata } of items) {
        const { name, ownerReferences = [] } = metadata;
        const isOfRun = JSON.stringify(metadata).includes(run);
        if (isOfRun && ownerReferences.length > 0 && !ownerReferences.some(({ uid }) => uids.has(uid)))
          await remove(`${path}/${name}`);
      }
    }
  }

  async function isReady(path: string): Promise<Shown | undefined> {
    const shown = await read<Shown>(path);
    const isObserved = shown?.status?.observedGeneration === shown?.metadata.generation;
    return isObserved && shown?.status?.phase === "Ready" ? shown : undefined;
  }

  return {
    workload: (spec = {}) => put(workloadPath, "TenancyWorkload", { ...BASE_SPEC, ...spec }),
    async workloadReady() {
      await until("the workload", async () => (await isReady(workloadPath)) !== undefined);
    },
    async observed() {
      let isServed = false;
      await until("the look at the specs", async () => {
        const shown = await Promise.all([workloadPath, poolPath].map((path) => read<Shown>(path)));
        isServed = shown.every((object) => object?.status?.phase !== "Error");
        return shown.every((object) => object?.status?.observedGeneration === object?.metadata.generation);
      });
      return isServed;
    },
    pool: (size, spec = {}) => put(poolPath, "TenancyPool", { workloadRef: run, size, ...spec }),
    async poolReady(size) {
      await until(`${size} ready pods in the pool`, async () => {
        const pool = await isReady(poolPath);
        const warm = (await ownPods()).filter(({ metadata }) => metadata.labels?.["tenancy.dev/pool"] !== undefined);
        const templates = new Set(warm.map(({ metadata }) => metadata.annotations?.["tenancy.dev/template-hash"]));
        const areReady = warm.every(({ metadata }) => metadata.labels?.["tenancy.dev/pool-status"] === "ready");
        return pool?.status?.ready === size && warm.length === size && areReady && templates.size <= 1;
      });
    },
    claim(spec = {}) {
      const claimed = { tenantId: `t-${run}`, workloadRef: run, ...spec };
      // Each story ends its claim in its own way, and says itself when that is over.
      void checker.whileReleasing(claimed, () => new Promise(() => undefined));
      return put(claimPath, "TenancyClaim", claimed);
    },
    async active() {
      await until("the pod", async () => (await read<Claim>(claimPath))?.status?.phase === "Active");
    },
    async write(token) {
      const pod = (await ownPods()).find(({ metadata }) => metadata.labels?.["tenancy.dev/tenant"] === `t-${run}`);
      const { uid } = pod?.metadata ?? { uid: "" };
      // The checker looks at what the tenant was given when it hears of the claim.
      await history.upToNow();
      checker.found(uid, pods.content(uid) ?? EMPTY);
      if (!pods.write(uid, token, 1000)) throw new Error(`Cannot write files of ${run}`);
      checker.writes({ tenantId: `t-${run}`, workloadRef: run }, uid, token);
    },
    release: () => remove(claimPath),
    async released() {
      await until("the end of the claim", async () => {
        const left = (await ownPods()).some(({ metadata }) => metadata.labels?.["tenancy.dev/pool"] === undefined);
        return !left && (await read(claimPath)) === undefined;
      });
      await collect();
    },
    deletePool: () => remove(poolPath),
    deleteWorkload: () => remove(workloadPath),
    async clear() {
      for (const path of [claimPath, poolPath, workloadPath]) await remove(path);
      await until("the end", async () => {
        const left = await Promise.all([claimPath, poolPath, workloadPath].map((path) => read(path)));
        return left.every((object) => object === undefined) && (await ownPods()).length === 0;
      });
      await collect();
    },
  };
}
