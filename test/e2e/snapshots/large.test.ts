// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { digestScript, type Stage, startStage } from "./stage.ts";

const name = `e2e-snapshots-large-${process.pid}`;
const key = { tenantId: "large", workloadRef: "shell" };
const MiB = 1024 ** 2;
const test = suite<{ stage: Stage }>("an overlay of 1 GiB, and of less");

test.before(async (context) => {
  context.stage = await startStage(name);
});
test.after(({ stage }) => stage.down());

/** Runs some work and prints how fast it was and how much memory this process, which is the operator here, had at most. */
async function measure<T>(what: string, bytes: number, work: Promise<T>): Promise<{ result: T; grownMiB: number }> {
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
  const speed = `${(bytes / MiB / seconds).toFixed(0)} MB/s, ${((user + system) / 1e6 / seconds).toFixed(2)} cores`;
  const grownMiB = (most - before) / MiB;
  console.log(
    `note: ${what}: ${seconds.toFixed(1)} s, ${speed}, ${(most / MiB).toFixed(0)} MiB resident at most, ${(before / MiB).toFixed(0)} before`,
  );
  return { result, grownMiB };
}

for (const sizeMiB of [1, 64]) {
  test(`of ${sizeMiB} MiB goes there and back`, async ({ stage }) => {
    const small = { ...key, tenantId: `of-${sizeMiB}` };
    await stage.createPod(`a-${sizeMiB}`);
    await stage.run(`a-${sizeMiB}`, `$b dd if=/dev/urandom of=/data/file bs=1M count=${sizeMiB} 2>/dev/null`);
    const digest = await stage.run(`a-${sizeMiB}`, digestScript);
    await measure(`save of ${sizeMiB} MiB`, sizeMiB * MiB, stage.save(`a-${sizeMiB}`, small));
    await stage.createPod(`b-${sizeMiB}`);
    await measure(`restore of ${sizeMiB} MiB`, sizeMiB * MiB, stage.restore(`b-${sizeMiB}`, small));
    assert.is(await stage.run(`b-${sizeMiB}`, digestScript), digest);
  });
}

test("goes there and back in bounded memory", async ({ stage }) => {
  await stage.createPod("large-a");
  await stage.run(
    "large-a",
    "for i in 0 1 2 3; do $b dd if=/dev/urandom of=/data/$i bs=1M count=128 2>/dev/null; done; $b cat /data/0 /data/1 /data/2 /data/3 > /data/all",
  );
  const digest = await stage.run("large-a", digestScript);
  const { result: saved, grownMiB } = await measure("save of 1 GiB", 1024 * MiB, stage.save("large-a", key, 600_000));
  assert.ok(saved.contentBytes > 1024 * MiB);
  assert.ok(grownMiB < 150, `${grownMiB} MiB more than before`);
  await stage.createPod("large-b");
  const restored = await measure("restore of 1 GiB", 1024 * MiB, stage.restore("large-b", key, { timeoutMs: 600_000 }));
  assert.ok(restored.grownMiB < 150, `${restored.grownMiB} MiB more than before`);
  assert.is(await stage.run("large-b", digestScript), digest);
});

test.run();
