import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiError } from "../../../crds/client/api-error.ts";
import { leases, pods } from "../../../crds/client/built-in-resources.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { claimName } from "../../../crds/names.ts";
import { findBinaries } from "../../cluster/binaries.ts";
import { startControlPlane } from "../../cluster/control-plane.ts";
import type { Log } from "../../cluster/log.ts";
import { startTcpProxy } from "../../cluster/process/tcp-proxy.ts";
import { undoAll } from "../../cluster/process/undo-all.ts";
import { pause, waitUntil } from "../../cluster/process/wait-until.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../cluster/programs.ts";
import { bundleOperator } from "../../start/bundle-programs.ts";
import { installKinds } from "../../start/install-kinds.ts";
import { NAMESPACE } from "../objects.ts";
import { startEdge, startOperator } from "../programs.ts";
import { WRITES_POLICY, writesOfFormerLeaders } from "./audit.ts";
import { watchExclusivity } from "./exclusivity.ts";
import { type Acknowledged, startLoad } from "./load.ts";
import { DESCRIPTIONS, type Fault } from "./options.ts";

export interface FailoverReport {
  /** The longest time without a completed claim after each fault, in milliseconds. */
  readonly gaps: ReadonlyMap<Fault, number[]>;
  readonly claims: number;
  /** Calls that were made again, by what the try before saw. */
  readonly retries: ReadonlyMap<string, number>;
  /** Must be empty: calls that no try completed, and claims that were answered with 201 and are not so. */
  readonly failures: readonly string[];
  /** Must be empty: pods of two claims, and claims of two pods. */
  readonly doubled: readonly string[];
  /** Must be empty: what an operator wrote after another had taken the lease. */
  readonly lateWrites: readonly string[];
  /** Must be empty: pods that no claim has at the end. */
  readonly orphans: readonly string[];
}

const WORKLOAD = "hello";
const POOL_SIZE = 12;
const START_LIMIT_MS = 120_000;
/** Claims that must be completed after a fault until the next. */
const CLAIMS_BETWEEN = 12;

/**
 * Runs two operators and two edges on a real API server with simulated nodes, with a load from outside that never stops,
 * and does to them what is asked for, one after the other.
 *
 * @param options.faults in their order
 * @param options.awayMs how long the API server is away
 */
export async function runFailover(options: {
  faults: readonly Fault[];
  awayMs: number;
  tree: string;
  log: Log;
  signal: AbortSignal;
}): Promise<FailoverReport> {
  const { faults, awayMs, tree, log, signal } = options;
  const undo: (() => unknown)[] = [];
  try {
    return await run();
  } finally {
    await undoAll(undo);
  }

  async function run(): Promise<FailoverReport> {
    const bundle = await bundleOperator(tree);
    const folder = mkdtempSync(join(tmpdir(), "tenancy-failover-"));
    undo.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    const policyPath = join(folder, "audit-policy.yaml");
    const auditPath = join(folder, "audit.log");
    writeFileSync(policyPath, WRITES_POLICY);
    const cluster = await startControlPlane({
      name: `failover-${process.pid}`,
      binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }),
      simulatedNodes: { nodes: 2 },
      apiServerFlags: [`--audit-policy-file=${policyPath}`, `--audit-log-path=${auditPath}`],
    });
    undo.push(() => cluster.stop());
    const config = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
    const transport = createTransport({ config, role: "test" });
    undo.push(() => transport.close());
    const client = createClusterClient({ transport });
    await installKinds({ client, namespace: NAMESPACE, signal });

    const ended: string[] = [];
    const onEnd = (name: string, how: string) => void ended.push(`${name} ended by itself: ${how}`);
    const operators = await Promise.all(
      ["operator-1", "operator-2"].map(async (name) => {
        const { kubeconfigPath } = await cluster.clientCertificate({ user: name, groups: ["system:masters"] });
        const proxy = await startTcpProxy({ port: Number(new URL(cluster.server).port) });
        undo.push(() => proxy.close());
        const through = readFileSync(kubeconfigPath, "utf8").replace(cluster.server, `https://127.0.0.1:${proxy.port}`);
        writeFileSync(kubeconfigPath, through);
        const program = await startOperator({ name, folder, bundle, kubeconfigPath, environment: {}, onEnd });
        undo.push(() => program.kill());
        return { name, proxy, program };
      }),
    );
    const edges = await Promise.all(
      ["edge-1", "edge-2"].map(async (name) => {
        const { kubeconfigPath } = cluster;
        const program = await startEdge({ name, folder, tree, kubeconfigPath, environment: {}, onEnd });
        undo.push(() => program.kill());
        return program;
      }),
    );
    const limits = { resources: { vcpus: 1, memoryMb: 64 } };
    const metadata = { name: WORKLOAD, namespace: NAMESPACE };
    await client.create(workloads, {
      metadata,
      spec: { image: { ref: "simulated/hello:1" }, network: { ports: [8080] }, ...limits },
    });
    await client.create(pools, { metadata, spec: { workloadRef: WORKLOAD, size: POOL_SIZE, maxFillConcurrency: 4 } });
    const urls = edges.map(({ url }) => url);
    for (const url of urls) await untilServing(url);
    const exclusivity = await watchExclusivity(client, NAMESPACE);
    undo.push(() => exclusivity.stop());

    const leaderPid = async (): Promise<number | undefined> => {
      const lease = await client.get(leases, { namespace: NAMESPACE, name: "tenancy-operator" });
      return Number(lease.spec?.holderIdentity?.split("_").at(-2)) || undefined;
    };
    const untilLeading = (isIt: (pid: number) => boolean, what: string): Promise<number> =>
      waitUntil(
        async () => {
          const pid = await leaderPid();
          return pid !== undefined && isIt(pid) && pid;
        },
        { what, limitMs: START_LIMIT_MS },
      );
    const withLeader = async (
      begin: (leader: (typeof operators)[number]) => unknown,
      end: (leader: (typeof operators)[number]) => unknown,
    ): Promise<void> => {
      const running = () => operators.find(({ program }) => program.pid() === pid);
      let pid: number | undefined = await leaderPid();
      const leader = running();
      if (leader === undefined) throw new Error(`Cannot find the leader: process ${pid} is none of the operators`);
      await begin(leader);
      pid = await untilLeading((present) => present !== pid, "another leader");
      await end(leader);
    };
    const inject: Record<Fault, () => Promise<void>> = {
      kill: () =>
        withLeader(
          ({ program }) => program.kill(),
          ({ program }) => program.start(),
        ),
      suspend: () =>
        withLeader(
          ({ program }) => program.suspend(),
          ({ program }) => program.resume(),
        ),
      cut: () =>
        withLeader(
          ({ proxy }) => proxy.hold(),
          ({ proxy }) => proxy.admit(),
        ),
      async edge() {
        const [edge] = edges.reverse();
        await edge?.kill();
        await untilMore(CLAIMS_BETWEEN);
        await edge?.start();
        await untilServing(edge?.url ?? "");
      },
      async "api-server"() {
        await cluster.apiServer.kill();
        await pause(awayMs);
        for (const url of urls) await seesNothing(url);
        await cluster.apiServer.start();
      },
    };
    await untilLeading(() => true, "a leader");
    const load = startLoad({ urls, workload: WORKLOAD, limitMs: 60_000 + awayMs, check });
    undo.push(() => load.stop());
    const gaps = new Map<Fault, number[]>(faults.map((fault) => [fault, []]));
    await untilMore(CLAIMS_BETWEEN);
    for (const [index, fault] of faults.entries()) {
      signal.throwIfAborted();
      const [from, count] = [performance.now(), load.claims.length];
      await inject[fault]();
      await untilMore(CLAIMS_BETWEEN);
      const times = [from, ...load.claims.slice(count)];
      const gap = Math.max(...times.slice(1).map((time, at) => time - (times[at] ?? 0)));
      gaps.get(fault)?.push(gap);
      log(`${index + 1} of ${faults.length}: ${DESCRIPTIONS[fault]}: ${Math.round(gap)} ms`);
    }
    await load.stop();
    const orphans = await leftOver();
    return {
      ...{ gaps, claims: load.claims.length, retries: load.retries, orphans },
      failures: [...load.failures, ...ended],
      doubled: [...exclusivity.doubled],
      lateWrites: writesOfFormerLeaders(
        readFileSync(auditPath, "utf8"),
        operators.map(({ name }) => name),
      ),
    };

    /** What was answered with 201 must be so. */
    async function check({ tenantId, instanceId }: Acknowledged): Promise<void> {
      const name = claimName({ tenantId, workloadRef: WORKLOAD });
      const end = performance.now() + START_LIMIT_MS + awayMs;
      for (;;) {
        try {
          const { status } = await client.get(claims, { namespace: NAMESPACE, name });
          if (status?.phase === "Active" && status.instanceId === instanceId) return;
          throw new LostClaim(`a claim was answered with ${instanceId}, and is ${JSON.stringify(status)}`);
        } catch (error) {
          const isLost = error instanceof LostClaim || (error instanceof ApiError && error.status === 404);
          if (isLost || performance.now() > end) throw error;
          await pause(100);
        }
      }
    }

    /** Pods that are left when every claim is gone. */
    async function leftOver(): Promise<string[]> {
      const { items } = await client.list(claims, { namespace: NAMESPACE });
      for (const { metadata } of items) await client.delete(claims, { namespace: NAMESPACE, name: metadata.name });
      const end = performance.now() + START_LIMIT_MS;
      for (;;) {
        const known = await client.list(pods, { namespace: NAMESPACE });
        const bound = known.items.filter((pod) => pod.metadata.annotations?.[annotation.claimUid] !== undefined);
        if (bound.length === 0 || performance.now() > end) return bound.map((pod) => pod.metadata.name);
        await pause(100);
      }
    }

    async function untilMore(count: number): Promise<void> {
      const before = load.claims.length;
      await waitUntil(() => load.claims.length >= before + count || load.failures.length > 0, {
        ...{ what: `${count} more claims`, limitMs: START_LIMIT_MS + awayMs, intervalMs: 20 },
        explain: () => operators.map(({ program }) => program.logTail()).join("\n"),
      });
    }
  }
}

class LostClaim extends Error {}

async function untilServing(url: string): Promise<void> {
  const isServing = () =>
    fetch(`${url}/api/v1/workloads`, { signal: AbortSignal.timeout(5000) }).then(
      async (response) => ((await response.json()) as unknown[]).length > 0,
      () => false,
    );
  await waitUntil(isServing, { what: `the edge at ${url} to answer`, limitMs: START_LIMIT_MS });
}

/** @throws Error where an edge answers from what it held before the API server went away */
async function seesNothing(url: string): Promise<void> {
  const response = await fetch(`${url}/api/v1/tenants`, { signal: AbortSignal.timeout(30_000) });
  if (response.ok) throw new Error(`the edge at ${url} answers for an API server that is away`);
}
