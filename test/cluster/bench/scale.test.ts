import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { startSimulatedEnvironment } from "../../../scripts/bench/environment/start-simulated-environment.ts";
import { createBenchContext } from "../../../scripts/bench/paths/bench-context.ts";
import { measureScale } from "../../../scripts/bench/paths/scale.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");

test("measureScale: the cluster has each size in turn and nothing left of what was measured, no figure is missing", async () => {
  const signal = AbortSignal.timeout(120_000);
  const log = () => undefined;
  const environment = await startSimulatedEnvironment({ bundle: await bundleOperator(root), log, signal });
  try {
    const context = createBenchContext({ environment, quick: true, seed: 1, log });
    const plan = { sizes: [20, 40], idleSeconds: 0.2, loadSeconds: 0.5, restarts: 1, quietMs: 300 };
    const { measurements, scale } = await measureScale(context, { plan, signal });
    assert.equal(
      scale.sizes.map(({ standing }) => standing),
      [
        { pods: 20, claims: 10, workloads: 2, pools: 1, triggers: 2 },
        { pods: 40, claims: 20, workloads: 4, pools: 2, triggers: 4 },
      ],
    );
    assert.equal(
      measurements.map(({ path, failures }) => ({ path, failures })),
      [20, 40].map((pods) => ({ path: `claims-at-${pods}`, failures: {} })),
    );
    for (const { figures } of scale.sizes) {
      const missing = Object.entries(figures).filter(([, figure]) => figure === null);
      assert.equal(
        missing.filter(([name]) => !/KiB.* to /.test(name)),
        [],
        "the machine may have no ss",
      );
      assert.is(figures["operator: start lists"], 8);
      assert.is(figures["edge: start lists"], 5);
    }
  } finally {
    await environment.stop();
  }
});

test.run();
