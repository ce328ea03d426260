import type { WorkloadSpec } from "../../crds/workload.ts";
import { HELLO_IMAGE } from "../cluster/images/local-images.ts";
import type { Log } from "../cluster/log.ts";
import type { BenchOptions } from "./options.ts";
import { measureCold } from "./paths/cold.ts";
import { type PathResult, runPath } from "./run-path.ts";
import type { Stage } from "./stage/stage.ts";
import { startRealStage } from "./stage/start-real-stage.ts";

const LIMIT_MS = 600_000;

const HELLO: WorkloadSpec = {
  image: { ref: HELLO_IMAGE },
  resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
  network: { access: "none", ports: [8080] },
  health: { httpGet: { path: "/", port: 8080 } },
};

/** Measures a cold claim against a bare pod on real containers, on a cluster that is there for this alone. */
export async function runReal(
  options: BenchOptions & { bundle: string; log: Log; signal: AbortSignal },
): Promise<{ kubernetes: string; result: PathResult }> {
  const { quick, log, signal } = options;
  let stage: Stage | undefined;
  try {
    const result = await runPath({
      path: "cold",
      limitMs: LIMIT_MS,
      async run(limit) {
        stage = await startRealStage({ ...options, log: (line) => log(`   ${line}`), signal: limit });
        return measureCold(stage, {
          path: "cold",
          n: quick ? 5 : 15,
          spec: HELLO,
          note: "containers, the image on the node; floor: a bare pod from its creation to Ready",
          log: (line) => log(`   ${line}`),
          signal: limit,
        });
      },
      log,
      signal,
    });
    return { kubernetes: stage?.version ?? "", result };
  } finally {
    await stage?.stop();
  }
}
