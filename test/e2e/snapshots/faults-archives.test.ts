// @limit 900
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import * as assert from "uvu/assert";
import { type RawEntry, rawEntry, rawTar, tarEnd } from "../../unit/snapshots/raw-tar.ts";
import { archiveOf } from "./faults.ts";
import { coldAndWarm, lifeSuite } from "./life-suite.ts";
import type { Lifecycle } from "./lifecycle.ts";

const test = lifeSuite("an archive that must not be restored", { name: "archives", prepare: coldAndWarm });

const content = Buffer.from("content");
const GiB = 1024 ** 3;

/** Changes the archive on the volume, with nothing recorded anew beside it. */
const changed: [string, (good: Buffer) => Buffer, RegExp][] = [
  ["with one bit changed", (good) => flipped(good), /decompressed|SHA-256/],
  ["cut off", (good) => good.subarray(0, good.length - 100), /has changed/],
];

/** Whole archives, with what a save records beside them; what else is refused: `archive-check.test.ts`. */
const hostile: [string, () => Buffer, RegExp][] = [
  ["with a path upward", () => packed([{ name: "data/../etc/passwd", content }]), /no plain path/],
  ["that is a bomb", bomb, /more than|larger than/],
];

const cases: [string, (life: Lifecycle, tenantId: string, workloadRef: string) => Promise<void>, RegExp][] = [
  ...changed.map(([what, change, says]): (typeof cases)[number] => [
    what,
    async (life, tenantId, workloadRef) => {
      await life.keep(tenantId, workloadRef, "good");
      const good = archiveOf(life, { spec: { tenantId, workloadRef } }) ?? Buffer.alloc(0);
      writeFileSync(join(life.volumeFolder, tenantId, `${workloadRef}.tar.gz`), change(good));
    },
    says,
  ]),
  ...hostile.map(([what, make, says]): (typeof cases)[number] => [
    what,
    async (life, tenantId, workloadRef) => {
      await life.store.write(
        { tenantId, workloadRef },
        (async function* () {
          yield make();
        })(),
        {
          signal: AbortSignal.timeout(60_000),
          timeoutMs: 60_000,
          describe: () => ({
            ...{ uid: 0, gid: 0, entries: 1, contentBytes: 1024, overlayDirs: ["/data"] },
            createdAt: new Date().toISOString(),
          }),
        },
      );
    },
    says,
  ]),
];

for (const [index, [what, put, says]] of cases.entries()) {
  // Each way of restoring reads what it is given alike, so every second of them will do.
  const workload = index % 2 === 0 ? "warm" : "cold";
  test(`${what}: the claim ends in RestoreFailed (${workload}), the archive stays, no pod does`, async (context) => {
    const { life, faults } = context;
    const tenant = `tenant-${index}`;
    await life.untilHelperRuns();
    await put(life, tenant, workload);
    const claim = await life.createClaim(tenant, workload, true);
    const before = archiveOf(life, claim);
    const ended = await life.untilClaim(claim, "to end", (status) => ["Active", "Error"].includes(status?.phase ?? ""));
    assert.equal([ended.status?.phase, ended.status?.reason], ["Error", "RestoreFailed"]);
    assert.match(ended.status?.message ?? "", says);
    assert.equal(archiveOf(life, claim), before);
    await faults.untilEvent(claim, "RestoreFailed");
    await life.untilClaim(claim, "to have no pod", async () => (await faults.podsOf(claim)).length === 0);
    await life.release(claim);
    assert.equal(archiveOf(life, claim), before, "its release saves nothing");
  });
}

function flipped(good: Buffer): Buffer {
  const bad = Buffer.from(good);
  const middle = Math.floor(bad.length / 2);
  bad[middle] = (bad[middle] ?? 0) ^ 1;
  return bad;
}

function packed(entries: readonly RawEntry[]): Buffer {
  return gzipSync(rawTar(entries));
}

/** 3 GiB of zeros in 3 MiB: members of gzip one after another are one stream. */
function bomb(): Buffer {
  const size = 3 * GiB;
  const zeros = gzipSync(Buffer.alloc(GiB / 16));
  const header = gzipSync(rawEntry({ name: "data/zeros", size }));
  return Buffer.concat([header, ...Array.from({ length: 48 }, () => zeros), gzipSync(tarEnd)]);
}

test.run();
