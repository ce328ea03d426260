// @limit 900
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { claimCommand, type Expected, modelCommands, releaseCommand, writeCommand } from "./model-commands.ts";
import { type ModelWorld, startModelWorld } from "./model-world.ts";
import { type PretendKubelet, startPretendKubelet } from "./pretend-kubelet.ts";

const SEQUENCES = Number(process.env.TENANCY_MODEL_SEQUENCES ?? 50);
const filesystem = { overlayDirs: ["/data"] };

const test = suite("files over claims, releases and crashes, against a model");
let tenancy: Tenancy;
let kubelet: PretendKubelet;
let world: ModelWorld;

test.before(async () => {
  tenancy = await startTenancy("test-snapshots-model", { nodes: false });
  kubelet = await startPretendKubelet(tenancy.client);
  world = startModelWorld(tenancy, kubelet);
  await tenancy.createWorkload("cold", { filesystem });
  await tenancy.createWorkload("warm", { filesystem });
  await tenancy.createPool("warm", { workloadRef: "warm", size: 2 });
  await tenancy.until("the pool to be full", () => tenancy.members("warm", "ready").length === 2);
});
test.after(async () => {
  await world?.stop();
  await kubelet?.stop();
  await tenancy?.stop();
});

/** Runs one sequence from an empty volume, and leaves no claim. */
async function inWorld(run: (expected: Expected) => Promise<void>): Promise<Expected> {
  const expected: Expected = { saved: new Map(), sessions: new Map(), written: 0, steps: 0 };
  world.volume.archives.clear();
  world.volume.versions.clear();
  try {
    await run(expected);
    return expected;
  } finally {
    world.plan(undefined);
    await world.letGoOn();
    const left = [...tenancy.claims.store.values()];
    await Promise.all(left.map(world.deleteClaim));
    await Promise.all(left.map(world.untilGone));
    world.volume.archives.clear();
  }
}

for (const workloadRef of ["cold", "warm"]) {
  for (const point of ["restore-begun", "restore-done"] as const) {
    test(`${workloadRef}: what a dead operator had under way at ${point} reaches no tenant's pod`, async () => {
      const at = { tenantId: "ann", workloadRef };
      const plan = { point, action: "kill operator, work goes on" } as const;
      const before = world.happened.get(plan.action) ?? 0;
      await inWorld(async (expected) => {
        await claimCommand({ at, resume: true }).run(expected, world);
        await writeCommand(at).run(expected, world);
        await releaseCommand({ at, again: false }).run(expected, world);
        await claimCommand({ at, resume: true, plan }).run(expected, world);
        assert.is(world.happened.get(plan.action), before + 1);
        await writeCommand(at).run(expected, world);
      });
    });
  }
}

test("a tenant sees its last saved files or an explicit error, in any order of events", async () => {
  let sequences = 0;
  let steps = 0;
  const seed = Number(process.env.TENANCY_MODEL_SEED ?? Date.now() % 2 ** 31);
  const property = fc.asyncProperty(fc.commands(modelCommands, { maxCommands: 24, size: "+1" }), async (commands) => {
    const expected = await inWorld((model) => fc.asyncModelRun(() => ({ model, real: world }), commands));
    sequences += 1;
    steps += expected.steps;
  });
  console.log(`note: model without containers, seed ${seed}`);
  await fc.assert(property, { seed, numRuns: SEQUENCES, endOnFailure: true, includeErrorInReport: true });
  const events = [...world.happened].map(([what, times]) => `${what}: ${times}`).join("; ");
  console.log(`note: model without containers: ${sequences} sequences, ${steps} steps (${events})`);
  assert.is(sequences, SEQUENCES);
});

test.run();
