// @limit 900
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { awaitReceipt, createReceipt } from "../../../crds/snapshots/receipt.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../../crds/snapshots/snapshots-names.ts";
import { TOOLS_CONTAINER } from "../../../operator/snapshots/pod-tools.ts";
import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { partialIn } from "./faults.ts";
import { digestScript, fillScript, namespace, type Stage, startStage } from "./stage.ts";

const name = `e2e-snapshots-${process.pid}`;
const ONE_BINARY_IMAGE = "localhost/of-one-binary:1";
const test = suite<{ stage: Stage }>("save and restore on real containers");

test.before(async (context) => {
  context.stage = await startStage(name);
  // Under this name it is a sleep and nothing else: no shell, no tar, no folder but the root.
  const content = readFileSync(await findStaticBusybox(() => undefined));
  const image = { name: ONE_BINARY_IMAGE, files: [{ path: "sleep", content, mode: 0o755 }], entrypoint: ["/sleep"] };
  await importImages(name, [image]);
});
test.after(({ stage }) => stage.down());

const took = async <T>(work: Promise<T>): Promise<[T, number]> => {
  const started = performance.now();
  const result = await work;
  return [result, Math.round(performance.now() - started)];
};

for (const [what, options] of [
  ["a user's files", {}],
  ["root's files, of a root without capabilities", { user: 0 }],
  ["files beside an image that holds one static binary", { image: ONE_BINARY_IMAGE, command: ["/sleep", "36000"] }],
] as const) {
  test(`brings back ${what}, into a running pod and before a pod's program starts`, async ({ stage }) => {
    const user = "user" in options ? options.user : 65532;
    const pod = `pod-${what.length}`;
    const key = { tenantId: `tenant-${what.length}`, workloadRef: "shell" };
    const image = "image" in options ? { image: options.image, command: [...options.command] } : {};
    await stage.createPod(`${pod}-a`, { user, ...image });
    await stage.run(`${pod}-a`, fillScript);
    const digest = await stage.run(`${pod}-a`, digestScript);
    const [saved, saveMs] = await took(stage.save(`${pod}-a`, key));
    assert.is(saved.uid, user);

    await stage.createPod(`${pod}-b`, { user, ...image });
    await stage.run(`${pod}-b`, "echo warm > /data/made-at-boot; $b mkdir /data/deep; echo x > /data/deep/stale");
    const [, restoreMs] = await took(stage.restore(`${pod}-b`, key));
    assert.is(await stage.run(`${pod}-b`, digestScript), digest);

    await stage.createPod(`${pod}-c`, { user, ...image, restoreAs: saved });
    const [, coldMs] = await took(stage.restore(`${pod}-c`, key, { cold: true }));
    await stage.untilRunning(`${pod}-c`, "workload");
    assert.is(await stage.run(`${pod}-c`, digestScript), digest);
    console.log(
      `note: ${what} (88 MiB, 24 MiB of it random): save ${saveMs} ms, into a running pod ${restoreMs} ms, cold ${coldMs} ms`,
    );
    for (const suffix of ["a", "b", "c"]) {
      await stage.client.delete(pods, { namespace, name: `${pod}-${suffix}` }, { gracePeriodSeconds: 0 });
    }
  });
}

test("lets a program that lists its directory as its first act find everything there", async ({ stage }) => {
  const key = { tenantId: "first-act", workloadRef: "shell" };
  await stage.createPod("act-a");
  await stage.run(
    "act-a",
    "for i in 1 2 3 4 5; do echo $i > /data/file-$i; done; $b dd if=/dev/urandom of=/data/large bs=1M count=8",
  );
  const saved = await stage.save("act-a", key);
  const command = ["sh", "-c", "ls /data > /tmp/first; exec sleep 36000"];
  await stage.createPod("act-b", { command, restoreAs: saved });
  const { status } = await stage.client.get(pods, { namespace, name: "act-b" });
  assert.ok(status?.containerStatuses?.[0]?.state?.waiting, "the program waits for its files");
  await stage.restore("act-b", key, { cold: true });
  await stage.untilRunning("act-b", "workload");
  assert.is(
    await stage.run("act-b", "until [ -s /tmp/first ]; do $b usleep 50000; done; $b cat /tmp/first"),
    "file-1\nfile-2\nfile-3\nfile-4\nfile-5\nlarge\n",
  );
});

test("restores one MiB in time, again and again", async ({ stage }) => {
  const key = { tenantId: "one-mib", workloadRef: "shell" };
  await stage.createPod("mib-a");
  await stage.run("mib-a", "$b dd if=/dev/urandom of=/data/file bs=1M count=1; $b mkdir -p /data/a/b/c");
  const digest = await stage.run("mib-a", digestScript);
  const saves: number[] = [];
  const restores: number[] = [];
  await stage.createPod("mib-b");
  for (let count = 0; count < 10; count += 1) {
    saves.push((await took(stage.save("mib-a", key)))[1]);
    restores.push((await took(stage.restore("mib-b", key)))[1]);
    assert.is(await stage.run("mib-b", digestScript), digest);
  }
  const sorted = (times: number[]) => times.sort((a, b) => a - b);
  const shown = (times: number[]) => `p50 ${sorted(times)[5]}, max ${times.at(-1)} ms`;
  console.log(`note: 1 MiB, save ${shown(saves)}; into a running pod ${shown(restores)}`);
});

test("refuses a corrupted archive, keeps it, and never starts the program", async ({ stage }) => {
  const key = { tenantId: "corrupt", workloadRef: "shell" };
  await stage.createPod("bad-a");
  await stage.run("bad-a", "$b dd if=/dev/urandom of=/data/file bs=1M count=3");
  const saved = await stage.save("bad-a", key);
  const path = join(stage.volumeFolder, "corrupt/shell.tar.gz");
  const good = readFileSync(path);
  const flipped = Buffer.from(good);
  flipped[1_500_000] = (flipped[1_500_000] ?? 0) ^ 1;
  await stage.createPod("bad-b");
  await stage.createPod("bad-c", { restoreAs: saved });
  for (const bad of [
    flipped,
    good.subarray(0, 2_000_000),
    Buffer.concat([good, Buffer.from("more")]),
    Buffer.alloc(0),
  ]) {
    writeFileSync(path, bad);
    for (const [pod, cold] of [
      ["bad-b", false],
      ["bad-c", true],
    ] as const) {
      const error = await stage.restore(pod, key, { cold }).catch((cause: unknown) => cause);
      assert.match(String(error), /^ArchiveError/);
    }
    assert.equal(readFileSync(path), Buffer.from(bad));
  }
  const { status } = await stage.client.get(pods, { namespace, name: "bad-c" });
  assert.ok(status?.initContainerStatuses?.[0]?.state?.running, "it waits for a restore that works");
  writeFileSync(path, good);
  await stage.restore("bad-c", key, { cold: true });
  await stage.untilRunning("bad-c", "workload");
});

test("fails safely when the helper pod or the tenant's pod goes in the middle", async ({ stage }) => {
  const key = { tenantId: "gone", workloadRef: "shell" };
  await stage.createPod("gone-a");
  await stage.run("gone-a", "echo first > /data/file");
  const first = await stage.save("gone-a", key);
  await stage.run("gone-a", "$b dd if=/dev/urandom of=/data/large bs=1M count=400 2>/dev/null");
  const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
  const folder = join(stage.volumeFolder, key.tenantId);
  const underWay = () => waitUntil(() => partialIn(folder), { what: "an archive to be written", limitMs: 60_000 });

  const saving = stage.save("gone-a", key, 600_000).catch((cause: unknown) => cause);
  await underWay();
  await killContainer(stage, SNAPSHOTS_NAME, SNAPSHOTS_CONTAINER);
  const [error, ms] = await took(saving);
  console.log(`note: helper pod killed: save failed after ${ms} ms with ${error}`);
  assert.instance(error, Error);
  assert.ok(ms < 50_000, "it does not wait for its time to be over");
  await stage.untilRunning(SNAPSHOTS_NAME, SNAPSHOTS_CONTAINER);
  assert.equal(await untilAnswer(() => stage.store.stat(key, call)), first);

  // What the killed one left would be taken for the next.
  for (const name of readdirSync(folder)) if (name.endsWith(".partial")) rmSync(join(folder, name));
  const again = stage.save("gone-a", key, 600_000).catch((cause: unknown) => cause);
  await underWay();
  await stage.client.delete(pods, { namespace, name: "gone-a" }, { gracePeriodSeconds: 0 });
  const lost = await again;
  console.log(`note: tenant's pod deleted: save failed with ${lost}`);
  assert.instance(lost, Error);
  assert.equal(await stage.store.stat(key, call), first);
});

/** Ends a container's processes as a crash would; the kubelet starts it again. */
async function killContainer(stage: Stage, pod: string, container: string): Promise<void> {
  const command = ["/bin/busybox", "sh", "-c", "kill -9 -1; kill -TERM 1"];
  await stage.exec({ namespace, pod, container, command, timeoutMs: 60_000 }).catch(() => undefined);
}

async function untilAnswer<T>(ask: () => Promise<T>): Promise<T> {
  let answer: { value: T } | undefined;
  await waitUntil(
    async () => {
      answer = await ask().then(
        (value) => ({ value }),
        () => undefined,
      );
      return answer !== undefined;
    },
    { what: "an answer", limitMs: 180_000, intervalMs: 200 },
  );
  if (answer === undefined) throw new Error("no answer");
  return answer.value;
}

test("gets all of an output from a command that waits for its receipt, however slowly it is taken", async ({
  stage,
}) => {
  const total = 40 * 1024 * 1024;
  await stage.createPod("slow-a");
  const read = async (pauseBefore: number): Promise<number> => {
    const receipt = createReceipt();
    let taken = 0;
    let paused = false;
    const stdout = new Writable({
      write(chunk: Buffer, _encoding, callback) {
        taken += chunk.length;
        if (taken === total) receipt.give();
        if (paused || taken < total - pauseBefore) return callback();
        paused = true;
        setTimeout(callback, 12_000);
      },
    });
    const script = `/.tenancy/busybox head -c ${total} /dev/zero; ${awaitReceipt}`;
    const command = ["/.tenancy/busybox", "sh", "-c", script];
    const target = { namespace, pod: "slow-a", container: "workload", command };
    await stage.exec({ ...target, stdin: receipt.stdin, stdout, timeoutMs: 60_000 });
    return taken;
  };
  const pauses = [1, 4, 10, 12].map((megabytes) => read(megabytes * 1024 * 1024));
  assert.equal(await Promise.all(pauses), [total, total, total, total]);
});

test("runs its commands in an init container that runs", async ({ stage }) => {
  await stage.createPod("init-a", { restoreAs: { uid: 1234, gid: 4321 } });
  const command = ["/bin/busybox", "sh", "-c", "id -u; id -g; ls /data | wc -l; exit 7"];
  const result = await stage.exec({ namespace, pod: "init-a", container: TOOLS_CONTAINER, command, timeoutMs: 60_000 });
  assert.is(result.exitCode, 7);
});

test.run();
