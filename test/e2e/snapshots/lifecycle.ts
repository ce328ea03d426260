import { spawn } from "node:child_process";
import { chownSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { leases, pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec, type Exec } from "../../../crds/client/exec/exec.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { finalizer, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { claimName } from "../../../crds/names.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { findProcess } from "../../../scripts/cluster/cluster-state.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { HELLO_IMAGE, TOOLS_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";
import { installKinds } from "../../../scripts/start/install-kinds.ts";
import { localSnapshots } from "../../../scripts/start/local-snapshots.ts";
import { clusterOfFile, leaveCluster } from "../cluster-of-file.ts";
import { type LifeObjects, startLifeObjects } from "./life-objects.ts";

export const NAMESPACE = "tenancy";
const root = join(import.meta.dirname, "..", "..", "..");
const LIMIT_MS = 480_000;

/** A real cluster with real containers, and the operator as a process of its own that can be killed. */
export interface Lifecycle {
  readonly cluster: LocalCluster;
  readonly client: ClusterClient;
  readonly exec: Exec;
  readonly store: SnapshotStore;
  /** What is in the place of the volume; undefined where it is the volume. */
  readonly objects: LifeObjects | undefined;
  /** The snapshots volume as this machine sees it. */
  readonly volumeFolder: string;
  /** The same folder of the node, which is there as long as the cluster is. */
  inNode(path: string): string;
  /** Makes a volume in memory read-only for everybody, or writable again. */
  remountVolume(mode: "ro" | "rw"): Promise<void>;
  /** Starts an operator beside those that run already. */
  startOperator(env?: Record<string, string>): Promise<OperatorProcess>;
  /** Ends the operators as a crash does; the next one need not wait for the lease of the dead (`leader.test.ts`). */
  killOperator(): Promise<void>;
  createWorkload(name: string, spec?: Partial<WorkloadSpec>): Promise<Workload>;
  createPool(name: string, workloadRef: string, size: number): Promise<void>;
  untilPool(name: string, size: number): Promise<void>;
  /** Creates a claim; see `untilClaim` for what becomes of it. */
  createClaim(tenantId: string, workloadRef: string, resume: boolean, claimName?: string): Promise<Claim>;
  /** Creates a claim and waits until it is Active. */
  claim(tenantId: string, workloadRef: string, resume: boolean): Promise<Claim>;
  /** Deletes a claim; it is gone when its release has come to its end. */
  deleteClaim(claim: Claim): Promise<void>;
  /** Claims, writes one file named `file`, and releases. */
  keep(tenantId: string, workloadRef: string, content: string): Promise<void>;
  /** What `keep` wrote, in the pod of a claim. */
  kept(claim: Claim): Promise<string>;
  /** Deletes a claim and waits until it is gone. */
  release(claim: Claim): Promise<void>;
  /** Waits until a claim that was deleted is gone. */
  untilGone(claim: Claim): Promise<void>;
  find(claim: Claim): Promise<Claim | undefined>;
  untilClaim(
    claim: Claim,
    what: string,
    is: (status: ClaimStatus | undefined, found: Claim | undefined) => boolean | Promise<boolean>,
  ): Promise<Claim>;
  /**
   * Waits until the release of a claim that was deleted has failed with that message. It is tried again meanwhile, so a
   * failure for another reason passes, as it would for a user, but it is noted.
   */
  untilReleaseFails(claim: Claim, says: RegExp): Promise<Claim>;
  untilWorkloadGone(name: string): Promise<void>;
  untilHelperRuns(): Promise<Pod>;
  /** Runs a script in a pod with the tools that were brought there; resolves with what it wrote. */
  run(pod: string | undefined, script: string): Promise<string>;
  down(): Promise<void>;
}

/** A process that `pause` stops as a node that is suspended does. */
export interface OperatorProcess {
  readonly pid: number;
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
}

export interface LifecycleOptions {
  /**
   * Makes the volume one of its own in memory, of that size, which counts against the helper pod's 256 MiB.
   * @default a folder of this machine
   */
  volumeMiB?: number;
  /** Lets operators ask object storage, where it is in the volume's place, through a proxy that can let requests fail. */
  hasObjectFaults?: boolean;
}

/** A program that runs until it is told to stop, after a command that it begins with. */
export function idleProgram(first = ":"): NonNullable<WorkloadSpec["entrypoint"]> {
  const script = `trap 'exit 0' TERM; ${first}; while :; do sleep 3600 & wait $!; done`;
  return { cmd: "/bin/busybox", args: ["sh", "-c", script] };
}

export async function startLifecycle(ownName: string, options: LifecycleOptions = {}): Promise<Lifecycle> {
  const name = clusterOfFile(ownName);
  process.once("SIGTERM", () => void leaveCluster(name).finally(() => process.exit(1)));
  try {
    return await prepareLifecycle(await upLocalCluster({ name }), options);
  } catch (error) {
    await leaveCluster(name);
    throw error;
  }
}

async function prepareLifecycle(
  cluster: LocalCluster,
  { volumeMiB, hasObjectFaults = false }: LifecycleOptions,
): Promise<Lifecycle> {
  const { name } = cluster;
  const nodePid = findProcess(clusterFolder(name), "containerd")?.identity.pid;
  const inNode = (path: string): string => `/proc/${nodePid}/root${path}`;
  const config = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  const transport = createTransport({ config, role: "test" });
  const client = createClusterClient({ transport });
  const exec = createExec({ config });
  const volumeFolder = inNode(join(cluster.volumesFolder, "snapshots"));
  const place = { kind: "volume", access: "api-server" } as const;
  // The same tests run over both stores: a file of its own sets it, and imports the other.
  const objects =
    process.env.TENANCY_TEST_STORE === "s3" ? await startLifeObjects({ hasFaults: hasObjectFaults }) : undefined;
  const { archives: volume } = openStore(
    { place, mayBeEmpty: false },
    { client, cluster: config, namespace: NAMESPACE },
  );
  const bundle = await bundleOperator(root);
  const operators = new Set<OperatorProcess>();

  // In the mount namespace of the cluster, with whose last process it goes.
  const mountInNode = async (...words: string[]) =>
    void (await runCommand("nsenter", [`--mount=/proc/${nodePid}/ns/mnt`, "--", "mount", ...words]));

  if (volumeMiB !== undefined) {
    await mountInNode("-t", "tmpfs", "-o", `size=${volumeMiB}m`, "tmpfs", cluster.volumesFolder);
    mkdirSync(volumeFolder, { mode: 0o700 });
    chownSync(volumeFolder, 65532, 65532);
  }
  const signal = AbortSignal.timeout(LIMIT_MS);
  await installKinds({ client, namespace: NAMESPACE, signal });
  const snapshots = await localSnapshots({ cluster, root });
  await snapshots.make({ client, namespace: NAMESPACE, signal });

  async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    let found: T | undefined;
    let problem = "";
    const looked = async () => {
      try {
        found = await look();
      } catch (error) {
        // A busy API server may have no answer in time.
        problem = String(error);
      }
      return found !== undefined;
    };
    await waitUntil(looked, { what, limitMs: LIMIT_MS, explain: () => problem }).catch(async (error: Error) => {
      const { items } = await client.list(claims, { namespace: NAMESPACE });
      const seen = JSON.stringify(items.map(({ metadata, status }) => ({ name: metadata.name, ...status })));
      throw new Error(`${error.message}\n${seen}`, { cause: error });
    });
    return found as T;
  }

  const store = objects?.store ?? volume;
  const life: Lifecycle = {
    ...{ cluster, client, exec, store, objects, volumeFolder, inNode },
    remountVolume: (mode) => mountInNode("-o", `remount,${mode}`, cluster.volumesFolder),
    async startOperator(env = {}) {
      const child = spawn(process.execPath, [bundle], {
        env: {
          ...process.env,
          KUBECONFIG: cluster.kubeconfigPath,
          TENANCY_CPU_OVERCOMMIT: "50",
          TENANCY_MEMORY_OVERCOMMIT: "8",
          // On a busy machine the operator would lose a shorter lease, and with it what it remembers of its restores.
          // No test waits for its end: `killOperator` deletes it.
          TENANCY_LEASE_SECONDS: "60",
          // Shown where a test fails: no status says what a save or restore failed with before it was tried again, or
          // why a save has read all files.
          TENANCY_LOG_LEVEL: process.env.TENANCY_LOG_LEVEL ?? "info",
          TENANCY_OPERATOR_LISTEN: "off",
          ...snapshots.environment,
          TENANCY_TOOLS_IMAGE: TOOLS_IMAGE,
          ...objects?.env,
          ...env,
        },
        stdio: ["ignore", "inherit", "inherit"],
      });
      const operator: OperatorProcess = {
        pid: child.pid ?? 0,
        pause: () => void child.kill("SIGSTOP"),
        resume: () => void child.kill("SIGCONT"),
        async kill() {
          operators.delete(operator);
          if (child.exitCode !== null || child.signalCode !== null) return;
          const ended = new Promise((resolve) => child.once("exit", resolve));
          child.kill("SIGKILL");
          await ended;
        },
      };
      operators.add(operator);
      return operator;
    },
    async killOperator() {
      await Promise.all([...operators].map((operator) => operator.kill()));
      try {
        await client.delete(leases, { namespace: NAMESPACE, name: "tenancy-operator" });
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    },
    async createWorkload(workload, spec = {}) {
      const defaults: WorkloadSpec = {
        // Its user is not root: the kubelet reports a root image that it does not run only after 15 s.
        image: { ref: HELLO_IMAGE },
        entrypoint: idleProgram(),
        resources: { vcpus: 1, memoryMb: 64, diskGb: 4 },
        // Only tests of checkpoints ask for them: one in another test is an archive more.
        filesystem: { overlayDirs: ["/data"], checkpointSeconds: 0 },
      };
      return await client.create(workloads, {
        metadata: { name: workload, namespace: NAMESPACE },
        spec: { ...defaults, ...spec },
      });
    },
    async createPool(pool, workloadRef, size) {
      await client.create(pools, { metadata: { name: pool, namespace: NAMESPACE }, spec: { workloadRef, size } });
      await life.untilPool(pool, size);
    },
    async untilPool(pool, size) {
      await until(`pool ${pool} to be full`, async () => {
        const { items } = await client.list(pods, {
          namespace: NAMESPACE,
          labelSelector: `${label.pool}=${pool},${label.poolStatus}=ready`,
        });
        const staying = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
        return staying.length >= size ? staying : undefined;
      });
    },
    createClaim: (tenantId, workloadRef, resume, as = claimName({ tenantId, workloadRef })) =>
      client.create(claims, {
        metadata: {
          name: as,
          namespace: NAMESPACE,
          labels: { [label.tenant]: tenantId },
          finalizers: [finalizer.release],
        },
        spec: { tenantId, workloadRef, resume },
      }),
    async claim(tenantId, workloadRef, resume) {
      const created = await life.createClaim(tenantId, workloadRef, resume);
      const claim = await life.untilClaim(created, "to be Active or in Error", (status) =>
        ["Active", "Error"].includes(status?.phase ?? ""),
      );
      if (claim.status?.phase !== "Active") throw new Error(`the claim failed: ${JSON.stringify(claim.status)}`);
      return claim;
    },
    async deleteClaim({ metadata: { name: claim } }) {
      await client.delete(claims, { namespace: NAMESPACE, name: claim });
    },
    async release(claim) {
      await life.deleteClaim(claim);
      await life.untilGone(claim);
    },
    async untilGone(claim) {
      await until(`claim ${claim.metadata.name} to be gone`, async () =>
        (await life.find(claim)) === undefined ? true : undefined,
      );
    },
    async keep(tenantId, workloadRef, content) {
      const claim = await life.claim(tenantId, workloadRef, false);
      await life.run(claim.status?.instanceId, `echo ${content} > /data/file`);
      await life.release(claim);
    },
    kept: ({ status }) => life.run(status?.instanceId, "$b cat /data/file"),
    async find({ metadata: { name: claim, uid } }) {
      try {
        const found = await client.get(claims, { namespace: NAMESPACE, name: claim });
        return found.metadata.uid === uid ? found : undefined;
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async untilWorkloadGone(workload) {
      await until(`workload ${workload} to be gone`, async () => {
        const { items } = await client.list(workloads, { namespace: NAMESPACE });
        return items.some(({ metadata }) => metadata.name === workload) ? undefined : true;
      });
    },
    untilClaim: (claim, what, is) =>
      until(`claim ${claim.metadata.name} ${what}`, async () => {
        const found = await life.find(claim);
        return (await is(found?.status, found)) ? (found ?? claim) : undefined;
      }),
    async untilReleaseFails(claim, says) {
      const others = new Set<string>();
      const failed = await life.untilClaim(claim, `to fail with ${says}`, (status) => {
        if (status?.phase !== "ReleaseFailed") return false;
        const { message = "" } = status;
        if (says.test(message)) return true;
        others.add(message);
        return false;
      });
      for (const other of others) {
        console.log(`note: before ${says} the release failed with: ${other}`);
        // A person could do nothing with it.
        if (/: exit code \d+\. The pod is kept/.test(other))
          throw new Error(`A failed release does not say why: ${other}`);
      }
      return failed;
    },
    untilHelperRuns: () =>
      until("the helper pod to run", async () => {
        const { items } = await client.list(pods, {
          namespace: NAMESPACE,
          fieldSelector: `metadata.name=${SNAPSHOTS_NAME}`,
        });
        return items.find(
          ({ metadata, status }) =>
            metadata.deletionTimestamp === undefined && status?.containerStatuses?.[0]?.state?.running !== undefined,
        );
      }),
    async run(pod = "", script) {
      let output = "";
      const stdout = new Writable({
        write(chunk: Buffer, _encoding, callback) {
          output += chunk.toString("utf8");
          callback();
        },
      });
      const shell = `b=/.tenancy/busybox; ${script}`;
      const { exitCode, stderr } = await exec({
        ...{ namespace: NAMESPACE, pod, container: WORKLOAD_CONTAINER },
        ...{ command: ["/.tenancy/busybox", "sh", "-c", shell], stdout, timeoutMs: LIMIT_MS },
      });
      if (exitCode !== 0) throw new Error(`${script} ended with ${exitCode}: ${stderr}`);
      return output;
    },
    async down() {
      await life.killOperator();
      transport.close();
      await leaveCluster(name);
      await objects?.stop();
    },
  };
  return life;
}
