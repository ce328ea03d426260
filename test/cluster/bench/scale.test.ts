// @long a tool, at scale
// @own-cluster
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { startSimulatedEnvironment } from "../../../scripts/bench/environment/start-simulated-environment.ts";
import { createCrowd } from "../../../scripts/bench/fixtures/crowd.ts";
import { createBenchContext } from "../../../scripts/bench/paths/bench-context.ts";
import { measureScale } from "../../../scripts/bench/paths/scale.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");

const size = { pods: 20, claims: 10, workloads: 2, pools: 1, triggers: 2 };

test("measureScale: fills a cluster and has each figure of it; nothing is left of what was measured", async () => {
  const signal = AbortSignal.timeout(120_000);
  const log = () => undefined;
  const environment = await startSimulatedEnvironment({ bundle: await bundleOperator(root), log, signal });
  try {
    const context = createBenchContext({ environment, quick: true, seed: 1, log });
    const plan = { sizes: [20], idleSeconds: 0.1, loadSeconds: 0.3, restarts: 1, quietMs: 200 };
    const { measurements, scale } = await measureScale(context, { plan, signal });
    assert.equal(
      measurements.map(({ path, failures }) => ({ path, failures })),
      [{ path: "claims-at-20", failures: {} }],
    );
    const figures = scale.sizes[0]?.figures ?? {};
    assert.equal(
      scale.sizes.map(({ standing }) => standing),
      [size],
    );
    assert.equal(await createCrowd(environment, log).standing(), size);
    assert.is(figures["operator: start lists"], 8);
    assert.is(figures["edge: start lists"], 5);
    const missing = Object.entries(figures).flatMap(([name, figure]) => (figure === null ? [name] : []));
    assert.equal(
      missing.filter((name) => !/KiB.* to /.test(name)),
      [],
      "without ss it is not known what went to whom",
    );
  } finally {
    await environment.stop();
  }
});

test.run();
