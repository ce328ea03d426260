// @limit 2400
import { readFileSync } from "node:fs";
import { Writable } from "node:stream";
import * as assert from "uvu/assert";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { awaitAcknowledgement, createAcknowledgement } from "../../../crds/snapshots/acknowledgement.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { BUSYBOX_IMAGE, HELLO_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { testAtOnce } from "../../at-once.ts";
import { archiveOf } from "./faults.ts";
import { type LifeContext, lifeSuite } from "./life-suite.ts";
import { idleProgram, NAMESPACE } from "./lifecycle.ts";
import { programCases, programsImage } from "./programs.ts";

const MiB = 1024 ** 2;
/** More than the helper pod and the growth that is allowed together may hold. */
const LARGE_MIB = 320;
const ONE_BINARY_IMAGE = "localhost/of-one-binary:1";
const SLEEP: NonNullable<WorkloadSpec["entrypoint"]> = { cmd: "/sleep", args: ["36000"] };

/** The overlay directories that the scripts here are about. */
const overlayDirs = ["/data", "/home/somebody"];

/** Prints a digest of everything that a save keeps, of the pod's overlay directories. */
const digestScript = `for folder in /data /home/somebody; do
  cd $folder
  $b find . -mindepth 1 -type d -print0 | $b sort -z | $b xargs -0 -r $b stat -c '%n %a %Y %u %g %F'
  $b find . ! -type d ! -type l ! -type p -print0 | $b sort -z | $b xargs -0 -r $b stat -c '%n %a %Y %u %g %s %h %F'
  $b find . -type l -print0 | $b sort -z | $b xargs -0 -r -n 1 $b readlink
  $b find . -type f -print0 | $b sort -z | $b xargs -0 -r $b sha256sum
done | $b sha256sum`;

/** Fills the pod's overlay directories with everything that a save must keep. */
const fillScript = `set -e; cd /data
touch() { $b touch "$@"; }; mkdir() { $b mkdir "$@"; }; chmod() { $b chmod "$@"; }; ln() { $b ln "$@"; }
mkdir empty deep deep/er "$($b printf 'new\\nline')" 日本語
echo plain > plain; echo here > deep/er/here; echo odd > "$($b printf 'caf\\351')"; echo quoted > "it's \\"\\$HOME\\" \\\\"
ln plain deep/hard; ln plain hard; ln -s plain link; ln -s /usr/bin/env absolute; ln -s ../../x upward; ln -s no dangling
long=nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn; mkdir $long$long$long; echo l > $long$long$long/$long$long$long$long
ln -s $long$long$long$long$long /home/somebody/long-target
$b truncate -s 8M sparse; $b dd if=/dev/urandom of=large bs=1M count=8 2>/dev/null
for mode in 0400 0600 0666 0755 0777 1644 2755 4755; do echo $mode > mode-$mode; chmod $mode mode-$mode; done
for mode in 0500 0555 0777 1777 2775; do mkdir folder-$mode; echo in > folder-$mode/in; ln -s /late folder-$mode/late; done
$b mkfifo pipe
touch -d @1000000001 plain deep/er/here large sparse; touch -d @1000000002 empty folder-0500 folder-0555 deep/er
touch -d @1000000003 deep folder-2775
for mode in 0500 0555 0777 1777 2775; do chmod $mode folder-$mode; done`;

/** Prints the mode of the program inside, and what it writes when it is started without a command. */
const insideScript = "$b stat -c %a /.tenancy/inside; /.tenancy/inside 2>&1 || :";
const insideUsage = /^555\ninside: usage: /;

const test = lifeSuite("files of every kind, whatever the image", {
  name: "images",
  async prepare({ cluster }) {
    // Under this name it is a sleep and nothing else: no shell, no tar, no folder but the root.
    const content = readFileSync(await findStaticBusybox(() => undefined));
    const image = { name: ONE_BINARY_IMAGE, files: [{ path: "sleep", content, mode: 0o755 }], entrypoint: ["/sleep"] };
    await importImages(cluster.name, [image, await programsImage()]);
  },
});

const images = [
  ["that runs as a user", HELLO_IMAGE, idleProgram()],
  ["that runs as root", BUSYBOX_IMAGE, idleProgram()],
  ["with nothing but one static binary", ONE_BINARY_IMAGE, SLEEP],
] as const;

async function getSlowly({ life }: LifeContext): Promise<void> {
  const total = 40 * MiB;
  await life.createWorkload("slow");
  const { status, spec } = await life.claim("reader", "slow", false);
  const read = async (pauseBefore: number): Promise<number> => {
    const acknowledgement = createAcknowledgement();
    let taken = 0;
    let paused = false;
    const stdout = new Writable({
      write(chunk: Buffer, _encoding, callback) {
        taken += chunk.length;
        if (taken === total) acknowledgement.send();
        if (paused || taken < total - pauseBefore) return callback();
        paused = true;
        setTimeout(callback, 12_000);
      },
    });
    const script = `/.tenancy/busybox head -c ${total} /dev/zero; ${awaitAcknowledgement}`;
    const command = ["/.tenancy/busybox", "sh", "-c", script];
    const target = { namespace: NAMESPACE, pod: status?.instanceId ?? "", container: WORKLOAD_CONTAINER, command };
    await life.exec({ ...target, stdin: acknowledgement.stdin, stdout, timeoutMs: 120_000 });
    return taken;
  };
  const pauses = [1, 4, 10, 12].map((megabytes) => read(megabytes * MiB));
  assert.equal(await Promise.all(pauses), [total, total, total, total], spec.tenantId);
}

testAtOnce(test, [
  ...images.map(
    ([what, image, entrypoint]) =>
      [
        `an image ${what} gets the same tree back, cold and from a pool, and the program inside`,
        async ({ life }: LifeContext) => {
          const workload = `rich-${what.length}`;
          const filesystem = { overlayDirs: [...overlayDirs] };
          await life.createWorkload(workload, { image: { ref: image }, entrypoint, filesystem });
          const first = await life.claim("rich", workload, true);
          await life.run(first.status?.instanceId, fillScript);
          const digest = await life.run(first.status?.instanceId, digestScript);
          assert.match(await life.run(first.status?.instanceId, insideScript), insideUsage);
          await life.release(first);
          const cold = await life.claim("rich", workload, true);
          assert.is(cold.status?.source, "cold+data");
          assert.match(await life.run(cold.status?.instanceId, insideScript), insideUsage);
          assert.is(await life.run(cold.status?.instanceId, digestScript), digest);
          await life.release(cold);
          await life.createPool(workload, workload, 1);
          const warm = await life.claim("rich", workload, true);
          assert.is(warm.status?.source, "pool+data");
          assert.is(await life.run(warm.status?.instanceId, digestScript), digest);
          assert.match(await life.run(warm.status?.instanceId, insideScript), insideUsage);
        },
      ] as const,
  ),
  ["all of an output arrives from a command that waits for its acknowledgement, however slowly it is taken", getSlowly],
  ...programCases,
]);

test("an overlay that is larger than the memory for it goes there and back in bounded memory", async ({ life }) => {
  await life.killOperator();
  const { pid } = await life.startOperator();
  await life.createWorkload("large");
  const first = await life.claim("large", "large", true);
  await life.run(
    first.status?.instanceId,
    `$b dd if=/dev/urandom of=/data/half bs=1M count=${LARGE_MIB / 2} 2>/dev/null; $b cp /data/half /data/other`,
  );
  const digest = await life.run(first.status?.instanceId, digestScript.replaceAll("/home/somebody", ""));
  const before = mostMemory(pid);
  await life.release(first);
  assert.ok(((await archiveOf(life, first))?.length ?? 0) >= LARGE_MIB * MiB, "none of it can be compressed");
  const next = await life.claim("large", "large", true);
  assert.is(await life.run(next.status?.instanceId, digestScript.replaceAll("/home/somebody", "")), digest);
  const grown = mostMemory(pid) - before;
  console.log(`note: operator at most ${grown.toFixed(0)} MiB larger for ${LARGE_MIB} MiB saved and restored`);
  assert.ok(grown < 150, `${grown} MiB more than before`);
});

/** The most resident memory that a process has had, in MiB. */
function mostMemory(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  assert.ok(kib);
  return Number(kib) / 1024;
}

test.run();
