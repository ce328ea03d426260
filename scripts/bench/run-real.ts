import type { WorkloadSpec } from "../../crds/workload.ts";
import { HELLO_IMAGE } from "../cluster/images/local-images.ts";
import type { Log } from "../cluster/log.ts";
import type { BenchEnvironment } from "./environment/start-environment.ts";
import { startRealEnvironment } from "./environment/start-real-environment.ts";
import { type BenchOptions, type PathName, REAL_PATHS } from "./options.ts";
import { measureBesideReleases } from "./paths/beside-releases.ts";
import { measureCheckpoints } from "./paths/checkpoints.ts";
import { measureCold } from "./paths/cold.ts";
import { measureE2b } from "./paths/e2b.ts";
import { measureIncrements } from "./paths/increments.ts";
import { measureInside } from "./paths/inside.ts";
import { measureOnClaim } from "./paths/on-claim.ts";
import { measureWithData } from "./paths/with-data.ts";
import type { Measurement } from "./report/measurement.ts";
import { type PathResult, runPath } from "./run-path.ts";

const LIMIT_MS = 1_200_000;

const HELLO: WorkloadSpec = {
  image: { ref: HELLO_IMAGE },
  resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
  network: { access: "none", ports: [8080] },
  health: { httpGet: { path: "/", port: 8080 } },
};

type RealPath = (typeof REAL_PATHS)[number];

export function isRealPath(path: PathName): path is RealPath {
  return REAL_PATHS.some((real) => real === path);
}

/** Runs the measurements that need real containers, on a separate cluster. */
export async function runReal(
  options: BenchOptions & { bundle: string; log: Log; signal: AbortSignal },
): Promise<{ kubernetes: string; results: PathResult[] }> {
  const { signal } = options;
  const log: Log = (line) => options.log(`   ${line}`);
  const results: PathResult[] = [];
  let environment: BenchEnvironment | undefined;
  try {
    for (const path of options.paths.filter(isRealPath)) {
      const result = await runPath({
        path,
        limitMs: LIMIT_MS,
        async run(limit) {
          environment ??= await startRealEnvironment({ ...options, log, signal });
          return measure(path, environment, { quick: options.quick, log, signal: limit });
        },
        log: options.log,
        signal,
      });
      results.push(result);
      // Without an environment, the other measurements cannot run either.
      if (environment === undefined) break;
    }
    return { kubernetes: environment?.version ?? "", results };
  } finally {
    await environment?.stop();
  }
}

async function measure(
  path: RealPath,
  environment: BenchEnvironment,
  { quick, log, signal }: { quick: boolean; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  switch (path) {
    case "cold":
      return measureCold(environment, {
        path,
        n: quick ? 5 : 15,
        spec: HELLO,
        note: "containers, the image on the node; floor: a bare pod from its creation to Ready",
        log,
        signal,
      });
    case "pool+data":
      return [
        ...(await measureWithData(environment, { path, mebibytes: 1, n: quick ? 10 : 30, log, signal })),
        ...(await measureWithData(environment, { path, mebibytes: 64, n: quick ? 2 : 5, log, signal })),
      ];
    case "cold+data":
      return [
        ...(await measureWithData(environment, { path, mebibytes: 1, n: quick ? 3 : 10, log, signal })),
        ...(await measureWithData(environment, { path, mebibytes: 64, n: quick ? 2 : 5, log, signal })),
      ];
    case "pool-beside":
      return measureBesideReleases(environment, { mebibytes: 16, n: quick ? 10 : 30, log, signal });
    case "on-claim":
      return measureOnClaim(environment, { n: quick ? 10 : 30, log, signal });
    case "increments": {
      const small = { mebibytes: 64, fileKib: 64, percents: [100, 1, 0], n: quick ? 3 : 10 };
      const large = { mebibytes: 1024, fileKib: 32, percents: [1, 0], n: quick ? 1 : 3 };
      const measured = await measureIncrements(environment, { ...small, log, signal });
      return [...measured, ...(await measureIncrements(environment, { ...large, log, signal }))];
    }
    case "checkpoints":
      return measureCheckpoints(environment, { mebibytes: 64, n: quick ? 1 : 5, log, signal });
    case "inside":
      return measureInside(environment, { n: quick ? 20 : 100, instances: quick ? 2 : 10, log, signal });
    case "e2b":
      return measureE2b(environment, { n: quick ? 5 : 30, signal });
    default:
      return path satisfies never;
  }
}
