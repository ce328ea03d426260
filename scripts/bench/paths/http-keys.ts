import { isAlreadyExists } from "../../../crds/client/api-error.ts";
import { namespaces } from "../../../crds/client/built-in-resources.ts";
import { startEdge } from "../environment/start-programs.ts";
import { processUsage } from "../environment/usage.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { generate } from "../http/generate.ts";
import type { LoadOrder } from "../http/generate-load.ts";
import { claimCall } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";

const KEYS_NAMESPACE = "bench-keys";
const API_KEY = "api-key-of-the-bench";
const WORKLOAD = "bench-keys";
const TENANT = "keys";
const CONNECTIONS = 64;
const ROUTES: readonly (Pick<LoadOrder, "method" | "path" | "body"> & { name: string })[] = [
  { name: "tenant", method: "GET", path: `/api/v1/tenants/${TENANT}` },
  {
    name: "existing",
    method: "POST",
    path: `/api/v1/tenants/${TENANT}/claim`,
    body: JSON.stringify({ workload: WORKLOAD }),
  },
];

interface Taken {
  readonly samplesMs: number[];
  /** CPU milliseconds of the edge a request, one a round. */
  readonly cpuMs: number[];
  n: number;
  failed: number;
}

/**
 * Measures what a key costs: the same calls without a key, with TENANCY_API_KEY and with a tenant's key, in turns. The
 * two edges are replaced half-way, since each process has a speed of its own.
 */
export async function measureHttpKeys(
  { environment, quick, log }: BenchContext,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const { kubeconfigPath, folder, client } = environment;
  await createWorkload(environment, WORKLOAD);
  const claimed = await claimCall(environment.edge, { tenantId: TENANT, workload: WORKLOAD });
  if (claimed.kind === "failed") throw new Error(`Cannot measure http-keys: a claim failed: ${claimed.why}`);
  await client.create(namespaces, { metadata: { name: KEYS_NAMESPACE } }).catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
  });
  const taken = new Map<string, Taken>();
  for (let half = 0; half < 2; half += 1) {
    const open = await startEdge({ kubeconfigPath, folder, signal });
    const settings = { TENANCY_API_KEY: API_KEY, TENANCY_KEYS_NAMESPACE: KEYS_NAMESPACE };
    const keyed = await startEdge({ kubeconfigPath, folder, settings, signal });
    try {
      await Promise.all([open.ready, keyed.ready]);
      const callers = [
        { name: "none", edge: open, headers: {} },
        { name: "api", edge: keyed, headers: bearer(API_KEY) },
        { name: "role", edge: keyed, headers: bearer(await createTenantKey(keyed.url, signal)) },
      ];
      // The first round warms up.
      for (let round = 0; round <= (quick ? 2 : 8); round += 1)
        for (const { name: route, ...order } of ROUTES)
          for (const { name, edge, headers } of callers) {
            const port = Number(new URL(edge.url).port);
            const before = processUsage(edge.identity.pid);
            const measureMs = quick ? 500 : 1000;
            const load = { ...order, port, headers, connections: CONNECTIONS, warmUpMs: 0, measureMs };
            const { requests, failed, samplesMs } = await generate(load, signal);
            const after = processUsage(edge.identity.pid);
            if (round === 0) continue;
            const path = `http-keys-${route}-${name}`;
            const found = taken.get(path) ?? { samplesMs: [], cpuMs: [], n: 0, failed: 0 };
            taken.set(path, found);
            found.samplesMs.push(...samplesMs);
            found.cpuMs.push((after.cpuMs - before.cpuMs) / requests);
            found.n += requests;
            found.failed += failed;
          }
    } finally {
      await Promise.all([open.stop(), keyed.stop()]);
    }
  }
  return [...taken].map(([path, { samplesMs, cpuMs, n, failed }]) => {
    const base = taken.get(path.replace(/[^-]+$/, "none"))?.cpuMs ?? [];
    const ratio = median(cpuMs.map((ms, round) => ms / (base[round] ?? Number.NaN)));
    const note = `${(median(cpuMs) * 1000).toFixed(1)} µs of the server's CPU time a request, ${ratio.toFixed(3)} of those without a key`;
    log(`${path}: ${note}`);
    const failures: Record<string, number> = failed === 0 ? {} : { "status other than 200 or 201": failed };
    return { path, samplesMs, whole: { n, failed }, missed: 0, failures, note };
  });
}

function bearer(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}` };
}

async function createTenantKey(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(`${url}/api/v1/keys`, {
    method: "POST",
    headers: { ...bearer(API_KEY), "content-type": "application/json" },
    body: JSON.stringify({ name: "bench", role: "tenant", tenants: [TENANT] }),
    signal,
  });
  const { key, error } = (await response.json()) as { key?: string; error?: string };
  if (key === undefined) throw new Error(`Cannot measure http-keys: no key was created: ${error}`);
  return key;
}

function median(figures: readonly number[]): number {
  const sorted = figures.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [one = Number.NaN, other = Number.NaN] = [sorted[middle], sorted[sorted.length - 1 - middle]];
  return (one + other) / 2;
}
