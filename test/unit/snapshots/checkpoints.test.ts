import { randomBytes, randomInt } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { createRandom } from "../../random.ts";
import { type Context, changeSomething, differences, increments, led, podOf, restore, unpack } from "./increments.ts";
import { call, key } from "./store-contract.ts";

const test = increments("checkpoints");

/** How many checkpoints of changed files are compared. */
const SEQUENCES = Number(process.env.TENANCY_MODEL_SEQUENCES ?? 20);

/**
 * Lets the lists of saves tell a time that is two minutes ahead, less two ticks of the clock of files. What had changed
 * before a list is then settled.
 */
function settled(exec: Exec): Exec {
  const now = `"$b" stat -L -c %z /proc/self/stat`;
  const ahead = `/usr/bin/date -u -d "+119.98 seconds" "+%Y-%m-%d %H:%M:%S.%N +0000"`;
  return ({ command, ...asked }) =>
    exec({ ...asked, command: command.map((word) => (word.includes("asks=") ? word.replace(now, ahead) : word)) });
}

/** A pod whose program has written some files. */
function startedPod({ folder }: Context, name: string): { pod: Pod; data: string } {
  const data = join(folder, name, "data");
  for (let dir = 0; dir < 10; dir += 1) {
    fs.mkdirSync(join(data, `dir ${dir}`), { recursive: true });
    for (let file = 0; file < 50; file += 1)
      fs.writeFileSync(join(data, `dir ${dir}`, `file ${file}`), randomBytes(8 * 1024));
  }
  return { pod: podOf(name), data };
}

const checkpoint = { ...led, kind: "checkpoint", session: "claim-uid" } as const;

/** The present checkpoint of the only session. */
async function present({ snapshots }: Context): Promise<SnapshotMetadata> {
  const found = await snapshots.findCheckpoint(key, { session: "claim-uid", signal: led.signal });
  if (found === undefined) throw new Error("there is no checkpoint");
  return found;
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 40));

test("a checkpoint reads what has changed since the one before", async (context) => {
  context.exec = settled(context.exec);
  const { pod, data } = startedPod(context, "pod");
  await soon();
  for (let round = 0; round < 4; round += 1) {
    fs.writeFileSync(join(data, "dir 3/file 7"), `changed in ${round}`);
    fs.renameSync(join(data, `dir 6/file ${round}`), join(data, `dir 7/moved ${round}`));
    fs.renameSync(join(data, `dir ${8 + (round % 2)}`), join(data, `dir ${9 - (round % 2)} moved`));
    fs.renameSync(join(data, `dir ${9 - (round % 2)} moved`), join(data, `dir ${8 + (round % 2)}`));
    await soon();
    Object.assign(context.read, { bytes: 0, parts: 0 });
    const onBytes = (bytes: number) => (context.read.bytes += bytes);
    await context.snapshots.save(key, pod, { ...checkpoint, sandbox: "its sandbox", onBytes });
    assert.is(context.read.parts, round === 0 ? 0 : 1);
    assert.ok(round === 0 || context.read.bytes < 300_000, `${context.read.bytes} bytes came from the pod`);
    const { sha256, sandbox } = await present(context);
    assert.is(sandbox, "its sandbox");
    assert.equal(differences(await unpack(context, `unpacked ${round}`, sha256), data), []);
  }
  assert.is((await context.snapshots.save(key, pod, checkpoint)).isUnchanged, true);
  const { newest, versions } = await context.served.store.look(key, call);
  assert.equal([newest, versions.length], [undefined, 1]);
  const unused = { unusedForMs: 0, signal: led.signal };
  assert.is(await context.snapshots.delete(key, unused), true, "it expires without a newest archive too");
});

test("after any changes a checkpoint has what the pod has", async (context) => {
  context.exec = settled(context.exec);
  const seed = Number(process.env.TENANCY_MODEL_SEED ?? randomInt(2 ** 31));
  const random = createRandom(seed);
  let one = startedPod(context, "first");
  let increments = 0;
  for (let saves = 0; saves < SEQUENCES; saves += 1) {
    for (let changes = random(6); changes > 0; changes -= 1) changeSomething(one.data, random);
    await soon();
    context.read.parts = 0;
    try {
      await context.snapshots.save(key, one.pod, checkpoint);
      const unpacked = await unpack(context, "unpacked", (await present(context)).sha256);
      assert.equal(differences(unpacked, one.data), []);
      fs.rmSync(join(unpacked, ".."), { recursive: true });
    } catch (error) {
      throw new Error(`TENANCY_MODEL_SEED=${seed}, save ${saves}: ${error}`, { cause: error });
    }
    increments += context.read.parts;
    if (random(5) === 0) one = await restore(context, `pod ${saves}`, "waiting", (await present(context)).sha256);
  }
  await context.snapshots.save(key, one.pod, { ...led, session: "claim-uid" });
  assert.equal(differences(await unpack(context, "released"), one.data), []);
  assert.equal((await context.served.store.look(key, call)).versions, [], "the release replaces the checkpoint");
  // How many follow a restore or no change is random: half of them did once.
  assert.ok(increments > SEQUENCES / 4, `${increments} of ${SEQUENCES} checkpoints read only what had changed`);
});

test.run();
