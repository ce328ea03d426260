import { type EdgeRuntime, startEdge } from "../environment/start-programs.ts";
import { processUsage } from "../environment/usage.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { generate } from "../http/generate.ts";
import type { LoadOrder } from "../http/generate-load.ts";
import { claimCall } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";

const RUNTIMES: readonly EdgeRuntime[] = ["bun", "deno", "node"];
const CONNECTIONS = 64;
const WORKLOAD = "bench-http";
const TENANT = "http";

const ROUTES: readonly (Pick<LoadOrder, "method" | "path" | "body"> & { name: string })[] = [
  { name: "health", method: "GET", path: "/api/v1/health" },
  { name: "stats", method: "GET", path: "/api/v1/stats" },
  {
    name: "existing",
    method: "POST",
    path: `/api/v1/tenants/${TENANT}/claim`,
    body: JSON.stringify({ workload: WORKLOAD }),
  },
];

/** Loads an edge on each runtime, one after the other, from another process on the same machine. */
export async function measureHttp(
  { environment, quick, log }: BenchContext,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const { kubeconfigPath, folder } = environment;
  await createWorkload(environment, WORKLOAD);
  const claimed = await claimCall(environment.edge, { tenantId: TENANT, workload: WORKLOAD });
  if (claimed.kind === "failed") throw new Error(`Cannot measure http: a claim failed: ${claimed.why}`);
  const measurements: Measurement[] = [];
  for (const runtime of RUNTIMES) {
    const edge = await startEdge({ kubeconfigPath, folder, runtime, signal });
    try {
      await edge.ready;
      for (const { name, ...route } of ROUTES) {
        const order = { ...route, port: Number(new URL(edge.url).port), connections: CONNECTIONS };
        const path = `http-${runtime}-${name}`;
        measurements.push(await load(path, edge.identity.pid, order));
      }
    } finally {
      await edge.stop();
    }
  }
  return measurements;

  async function load(
    path: string,
    pid: number,
    order: Omit<LoadOrder, "warmUpMs" | "measureMs">,
  ): Promise<Measurement> {
    // The warm-up is a run of its own, so that the CPU time is that of the counted requests alone.
    await generate({ ...order, warmUpMs: 0, measureMs: quick ? 500 : 2000 }, signal);
    const before = processUsage(pid);
    const result = await generate({ ...order, warmUpMs: 0, measureMs: quick ? 1000 : 5000 }, signal);
    const after = processUsage(pid);
    const { requests: n, failed } = result;
    const perSecond = n / result.seconds;
    const cpuMs = after.cpuMs - before.cpuMs;
    const perCpuSecond = Math.round(n / (cpuMs / 1000));
    log(`${path}: ${Math.round(perSecond)} requests/s, ${perCpuSecond} a second of the server's CPU time`);
    const failures: Record<string, number> =
      result.failed === 0 ? {} : { "status other than 200 or 201": result.failed };
    return {
      path,
      samplesMs: result.samplesMs,
      whole: { n, failed },
      missed: 0,
      failures,
      perSecond,
      note: `${CONNECTIONS} connections, ${perCpuSecond} requests a second of the server's CPU time`,
    };
  }
}
