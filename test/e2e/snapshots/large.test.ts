// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { digestScript, type Stage, startStage } from "./stage.ts";

const name = `e2e-snapshots-large-${process.pid}`;
const key = { tenantId: "large", workloadRef: "shell" };
const MiB = 1024 ** 2;
const SIZE_MIB = 320;
const test = suite<{ stage: Stage }>("an overlay that is larger than the memory for it");

test.before(async (context) => {
  context.stage = await startStage(name);
});
test.after(({ stage }) => stage.down());

/** Runs some work and prints how fast it was and how much memory this process, which is the operator here, had at most. */
async function measure<T>(what: string, work: Promise<T>): Promise<{ result: T; grownMiB: number }> {
  global.gc?.();
  const before = process.memoryUsage.rss();
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss());
  }, 20);
  const cpu = process.cpuUsage();
  const started = performance.now();
  const result = await work.finally(() => clearInterval(sampling));
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const speed = `${(SIZE_MIB / seconds).toFixed(0)} MB/s, ${((user + system) / 1e6 / seconds).toFixed(2)} cores`;
  const grownMiB = (most - before) / MiB;
  console.log(
    `note: ${what} of ${SIZE_MIB} MiB: ${seconds.toFixed(1)} s, ${speed}, ${(most / MiB).toFixed(0)} MiB resident at most, ${(before / MiB).toFixed(0)} before`,
  );
  return { result, grownMiB };
}

test("goes there and back in bounded memory", async ({ stage }) => {
  await stage.createPod("large-a");
  await stage.run(
    "large-a",
    `$b dd if=/dev/urandom of=/data/half bs=1M count=${SIZE_MIB / 2} 2>/dev/null; $b cp /data/half /data/other`,
  );
  const digest = await stage.run("large-a", digestScript);
  const { result: saved, grownMiB } = await measure("save", stage.save("large-a", key, 600_000));
  assert.ok(saved.contentBytes >= SIZE_MIB * MiB);
  assert.ok(grownMiB < 150, `${grownMiB} MiB more than before`);
  await stage.createPod("large-b");
  const restored = await measure("restore", stage.restore("large-b", key, { timeoutMs: 600_000 }));
  assert.ok(restored.grownMiB < 150, `${restored.grownMiB} MiB more than before`);
  assert.is(await stage.run("large-b", digestScript), digest);
});

test.run();
