import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { startSimulatedEnvironment } from "../../../scripts/bench/environment/start-simulated-environment.ts";
import { createBenchContext } from "../../../scripts/bench/paths/bench-context.ts";
import { measureScale } from "../../../scripts/bench/paths/scale.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");

test("measureScale: grows a cluster to each size, and has every figure of it", async () => {
  const signal = AbortSignal.timeout(120_000);
  const log = process.env["BENCH_LOG"] ? console.error : () => undefined;
  const environment = await startSimulatedEnvironment({ bundle: await bundleOperator(root), log, signal });
  const context = createBenchContext({ environment, quick: true, seed: 1, log });
  try {
    const plan = { sizes: [20, 40], idleSeconds: 0.2, loadSeconds: 0.5, restarts: 1, quietMs: 300 };
    const { measurements, scale } = await measureScale(context, { plan, signal });
    console.error(scale.sizes, measurements);
    assert.equal(
      scale.sizes.map(({ standing }) => standing),
      [
        { pods: 20, claims: 10, workloads: 2, pools: 1, triggers: 2 },
        { pods: 40, claims: 20, workloads: 4, pools: 2, triggers: 4 },
      ],
    );
  } finally {
    await context.close();
    await environment.stop();
  }
});

test.run();
