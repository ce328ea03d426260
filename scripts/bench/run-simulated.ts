import type { Log } from "../cluster/log.ts";
import type { CountedPath } from "./audit-log.ts";
import { startSimulatedEnvironment } from "./environment/start-simulated-environment.ts";
import { SIMULATED_WORKLOAD } from "./fixtures/create-workload.ts";
import type { BenchOptions, PathName } from "./options.ts";
import { type BenchContext, createBenchContext } from "./paths/bench-context.ts";
import { measureCold } from "./paths/cold.ts";
import { type CountablePath, countPaths } from "./paths/count-paths.ts";
import { measureHttp } from "./paths/http.ts";
import { measureHttpKeys } from "./paths/http-keys.ts";
import { measureLadder } from "./paths/ladder.ts";
import { measureOverload } from "./paths/overload.ts";
import { measureExisting, measurePool, measurePoolBurst, measurePoolRate } from "./paths/pool.ts";
import { measureProxy } from "./paths/proxy.ts";
import { measureRefill } from "./paths/refill.ts";
import { measureScale } from "./paths/scale.ts";
import type { ScaleResult } from "./report/bench-report.ts";
import type { Measurement } from "./report/measurement.ts";
import { type PathResult, runPath } from "./run-path.ts";

/** The results on simulated nodes. */
export interface SimulatedResult {
  readonly kubernetes: string;
  readonly results: readonly PathResult[];
  readonly scale: ScaleResult | undefined;
  readonly counted: Partial<Record<CountablePath, CountedPath>>;
}

const LIMIT_MS: Readonly<Partial<Record<PathName, number>>> = {
  "pool-rate": 300_000,
  "http-keys": 600_000,
  scale: 900_000,
  ladder: 300_000,
  overload: 900_000,
};
const OTHERS_LIMIT_MS = 180_000;
const COUNTED_AS: Readonly<Partial<Record<PathName, CountablePath>>> = {
  existing: "existing",
  "cold-simulated": "cold",
  pool: "pool",
  "pool-burst": "pool",
  "pool-rate": "pool",
  scale: "pool",
};

/** Measures the named paths one after the other on one control plane. Then counts their requests to the API server. */
export async function runSimulated(
  options: BenchOptions & { bundle: string; log: Log; signal: AbortSignal },
): Promise<SimulatedResult> {
  const { paths, quick, seed, log, signal } = options;
  log("-> control plane with simulated nodes, operator, edge");
  const environment = await startSimulatedEnvironment(options);
  const context = createBenchContext({ environment, quick, seed, log: (line) => log(`   ${line}`) });
  try {
    let scale: ScaleResult | undefined;
    const results: PathResult[] = [];
    for (const path of paths) {
      const limitMs = LIMIT_MS[path] ?? OTHERS_LIMIT_MS;
      results.push(await runPath({ path, limitMs, run: (limit) => measure(path, limit), log, signal }));
    }
    const counted = await count();
    return { kubernetes: environment.version, results, scale, counted };

    async function measure(path: PathName, limit: AbortSignal): Promise<Measurement[]> {
      if (path !== "scale") return measurePath(path, context, limit);
      const found = await measureScale(context, { signal: limit });
      scale = found.scale;
      return [...found.measurements, ...(await measurePool(context, { path: "pool-at-scale", signal: limit }))];
    }

    async function count(): Promise<SimulatedResult["counted"]> {
      const countable = new Set(paths.map((path) => COUNTED_AS[path]).filter((path) => path !== undefined));
      if (countable.size === 0) return {};
      let found: SimulatedResult["counted"] = {};
      const run = async (limit: AbortSignal) => {
        found = await countPaths(context, { paths: [...countable], signal: limit });
        return [];
      };
      results.push(await runPath({ path: "requests", limitMs: OTHERS_LIMIT_MS, run, log, signal }));
      return found;
    }
  } finally {
    await context.close();
    await environment.stop();
  }
}

function measurePath(path: PathName, context: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  switch (path) {
    case "existing":
      return measureExisting(context, signal);
    case "cold-simulated":
      return measureCold(context.environment, {
        path,
        n: context.quick ? 15 : 100,
        spec: SIMULATED_WORKLOAD,
        note: "pods without containers, each Ready 50 ms after its node took it; floor: a bare pod",
        log: context.log,
        signal,
      });
    case "pool":
      return measurePool(context, { path, signal });
    case "pool-burst":
      return measurePoolBurst(context, signal);
    case "refill":
      return measureRefill(context, signal);
    case "pool-rate":
      return measurePoolRate(context, signal);
    case "ladder":
      return measureLadder(context, signal);
    case "overload":
      return measureOverload(context, signal);
    case "http":
      return measureHttp(context, signal);
    case "http-keys":
      return measureHttpKeys(context, signal);
    case "proxy":
      return measureProxy(context, signal);
    case "scale":
    case "cold":
    case "pool+data":
    case "cold+data":
    case "pool-beside":
    case "on-claim":
    case "e2b":
    case "increments":
    case "checkpoints":
    case "inside":
      throw new Error(`Cannot measure ${path} here`);
    default:
      return path satisfies never;
  }
}
