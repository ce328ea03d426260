// @limit 1800
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { testAtOnce } from "../../at-once.ts";
import { rawTar } from "../../unit/archive/raw-tar.ts";
import { archiveOf, type Faults } from "./faults.ts";
import { type LifeContext, lifeSuite } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

const isInObjects = process.env.TENANCY_TEST_STORE === "s3";
const test = lifeSuite("a store that fails, and archives that must not be restored", {
  name: "faults",
  ...(isInObjects ? { hasObjectFaults: true } : { volumeMiB: 128 }),
  async prepare(life) {
    await life.createWorkload("warm");
    await life.createWorkload("cold");
    await life.createPool("warm", "warm", 2);
    const tenants = [...storeFaults.map(({ what }) => `tenant-${what}`), "given-up", "locks", "elsewhere"];
    await Promise.all(tenants.map((tenant) => life.keep(tenant, "warm", "old")));
  },
});

interface Fault {
  readonly what: string;
  /** What the claim's message says of it. */
  readonly says: RegExp;
  begin(life: Lifecycle, faults: Faults): Promise<void> | void;
  end(life: Lifecycle): Promise<void> | void;
  /** What of the tenant is there meanwhile; nothing can be asked for of a bucket that is gone. */
  archiveOf?(life: Lifecycle, claim: Claim): Promise<Buffer | undefined>;
}

const volumeFaults: Fault[] = [
  {
    what: "read-only",
    says: /EROFS: read-only file system, open/,
    begin: (life) => life.remountVolume("ro"),
    end: (life) => life.remountVolume("rw"),
    archiveOf,
  },
  {
    what: "full",
    says: /ENOSPC: no space left on device/,
    begin: ({ volumeFolder }) => fill(join(volumeFolder, "filler")),
    end: ({ volumeFolder }) => rmSync(join(volumeFolder, "filler")),
    archiveOf,
  },
  {
    what: "gone",
    says: /the files could not be saved/,
    async begin({ volumeFolder }, faults) {
      renameSync(volumeFolder, `${volumeFolder}.away`);
      await faults.killHelper();
    },
    end: ({ volumeFolder }) => renameSync(`${volumeFolder}.away`, volumeFolder),
    archiveOf: (life, claim) => archiveOf({ ...life, volumeFolder: `${life.volumeFolder}.away` }, claim),
  },
];

const objectFaults: Fault[] = [
  {
    what: "denied",
    says: /403 AccessDenied/,
    begin: (life) => refuseWrites(life, "/"),
    end: allowWrites,
    archiveOf,
  },
  {
    what: "gone",
    says: /404 NoSuchBucket/,
    begin: ({ objects }) => objects?.takeAway(),
    end: ({ objects }) => objects?.bringBack(),
  },
];

const storeFaults = isInObjects ? objectFaults : volumeFaults;

/** Has object storage refuse to write what has that in its name. */
function refuseWrites({ objects }: Lifecycle, within: string): void {
  if (objects?.faults === undefined) return;
  objects.faults.decide = ({ method, path }) => (method !== "GET" && path.includes(within) ? "denied" : undefined);
}

function allowWrites({ objects }: Lifecycle): void {
  if (objects?.faults !== undefined) objects.faults.decide = () => undefined;
}

for (const { what, says, begin, end, archiveOf: archiveMeanwhile } of storeFaults) {
  test(`${what}: the release fails, keeps the pod and the archive of before, and ends well once it is mended`, async (context) => {
    const { life, faults } = context;
    const tenant = `tenant-${what}`;
    const claim = await life.claim(tenant, "warm", true);
    assert.is(await life.kept(claim), "old\n");
    await life.run(
      claim.status?.instanceId,
      "echo new > /data/file; $b dd if=/dev/urandom of=/data/more bs=1M count=8",
    );
    const before = await archiveOf(life, claim);
    await begin(life, faults);
    await life.deleteClaim(claim);
    try {
      const failed = await life.untilReleaseFails(claim, says);
      assert.match(failed.status?.message ?? "", /The pod is kept .*tenancy\.dev\/discard=true/);
      await faults.untilEvent(claim, "ReleaseFailed");
      assert.is(await life.kept(claim), "new\n", "its pod is kept");
      if (archiveMeanwhile !== undefined) assert.equal(await archiveMeanwhile(life, claim), before);
    } finally {
      await end(life);
    }
    await life.untilGone(claim);
    assert.not.equal(await archiveOf(life, claim), before);
    assert.is(await leftovers(life, claim.spec), 0);
    await life.untilPool("warm", 1);
    const next = await life.claim(tenant, "warm", true);
    assert.is(next.status?.source, "pool+data");
    assert.is(await life.kept(next), "new\n");
  });
}

async function giveUp({ life, faults }: LifeContext): Promise<void> {
  const claim = await life.claim("given-up", "warm", true);
  await life.run(claim.status?.instanceId, "echo new > /data/file");
  const before = await archiveOf(life, claim);
  if (isInObjects) refuseWrites(life, "/given-up/");
  else chmodSync(join(life.volumeFolder, "given-up"), 0o500);
  await life.deleteClaim(claim);
  await life.untilClaim(claim, "to fail", (status) => status?.phase === "ReleaseFailed");
  const body = { metadata: { annotations: { [annotation.discard]: "true" } } };
  await life.client.patch(claims, { namespace: NAMESPACE, name: claim.metadata.name }, { type: "merge", body });
  await life.untilGone(claim);
  await faults.untilEvent(claim, "Discarded");
  assert.equal(await archiveOf(life, claim), before);
  if (isInObjects) allowWrites(life);
  else chmodSync(join(life.volumeFolder, "given-up"), 0o700);
  const next = await life.claim("given-up", "warm", true);
  assert.is(await life.kept(next), "old\n");
}

async function saveLocked({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("locks", "warm", true);
  await life.run(claim.status?.instanceId, "echo new > /data/file; echo mine > /data/locked; $b chmod 0 /data/locked");
  const before = await archiveOf(life, claim);
  await life.deleteClaim(claim);
  await life.untilReleaseFails(claim, /data\/locked.*Permission denied/);
  assert.equal(await archiveOf(life, claim), before);
  await life.run(claim.status?.instanceId, "$b chmod 600 /data/locked");
  await life.untilGone(claim);
  const next = await life.claim("locks", "warm", true);
  assert.is(await life.run(next.status?.instanceId, "$b cat /data/file /data/locked"), "new\nmine\n");
}

test("an empty folder in the volume's place: nobody with files starts without them, or saves beside them", async (context) => {
  // For a bucket: object-storage.test.ts.
  if (isInObjects) return;
  const { life, faults } = context;
  const open = await life.claim("open", "warm", false);
  await life.run(open.status?.instanceId, "echo mine > /data/file");
  renameSync(life.volumeFolder, `${life.volumeFolder}.away`);
  mkdirSync(life.volumeFolder, { mode: 0o700 });
  chownSync(life.volumeFolder, 65532, 65532);
  await faults.killHelper();
  // The next operator has never seen the right one.
  await life.killOperator();
  await life.startOperator();
  const waiting = await life.createClaim("elsewhere", "warm", true);
  // The kubelet finds a container by its pod's name, so a first look may reach the helper that is ending, and find the
  // files; they come from the new one, which has none.
  await life.untilClaim(waiting, "to wait", (status) => {
    return status?.reason === "SnapshotsUnavailable" && /the mark .* is gone/.test(status.message ?? "");
  });
  assert.equal(await faults.podsOf(waiting), []);
  await life.deleteClaim(open);
  await life.untilClaim(open, "to fail", (status) => /the mark .* is gone/.test(status?.message ?? ""));
  assert.equal(readdirSync(life.volumeFolder), []);
  rmdirSync(life.volumeFolder);
  renameSync(`${life.volumeFolder}.away`, life.volumeFolder);
  await faults.killHelper();
  const active = await life.untilClaim(waiting, "to be Active", (status) => status?.phase === "Active");
  assert.is(await life.kept(active), "old\n");
  await life.untilGone(open);
  assert.ok(await archiveOf(life, open));
});

const archives: [what: string, workload: string, put: typeof changeArchive, says: RegExp][] = [
  ["with one bit changed that no decompression sees", "warm", changeArchive, /its SHA-256 is not the one/],
  // Whole, with what a save records beside it; what else is refused: `archive-check.test.ts`.
  ["with a path upward", "cold", writeHostile, /has no plain path/],
];

async function refuse(
  { life, faults }: LifeContext,
  [, workload, put, says]: (typeof archives)[number],
): Promise<void> {
  const key = { tenantId: `archive-${workload}`, workloadRef: workload };
  if (!isInObjects) await life.untilHelperRuns();
  await put(life, key);
  const claim = await life.createClaim(key.tenantId, workload, true);
  const stored = () => life.objects?.stored(key) ?? archiveOf(life, claim);
  const before = await stored();
  const ended = await life.untilClaim(claim, "to end", (status) => ["Active", "Error"].includes(status?.phase ?? ""));
  assert.equal([ended.status?.phase, ended.status?.reason], ["Error", "RestoreFailed"]);
  assert.match(ended.status?.message ?? "", says);
  assert.equal(await stored(), before);
  await faults.untilEvent(claim, "RestoreFailed");
  await life.untilClaim(claim, "to have no pod", async () => (await faults.podsOf(claim)).length === 0);
  await life.release(claim);
  assert.equal(await stored(), before, "its release saves nothing");
}

testAtOnce(test, [
  ["a person gives up files that cannot be saved, and the archive of before stays", giveUp],
  ["a file that its own user may not read: the release says which, and saves it when it can be read", saveLocked],
  ...archives.map(
    (archive) =>
      [
        `an archive ${archive[0]}: the claim ends in RestoreFailed (${archive[1]}), the archive stays, no pod does`,
        (context: LifeContext) => refuse(context, archive),
      ] as const,
  ),
]);

/** Of the header of gzip (RFC 1952), the byte that names the operating system. */
async function changeArchive(life: Lifecycle, { tenantId, workloadRef }: SnapshotKey): Promise<void> {
  await life.keep(tenantId, workloadRef, "good");
  const archive = (await archiveOf(life, { spec: { tenantId, workloadRef } })) ?? Buffer.alloc(0);
  archive[9] = (archive[9] ?? 0) ^ 1;
  if (life.objects !== undefined) return await life.objects.overwrite({ tenantId, workloadRef }, archive);
  writeFileSync(join(life.volumeFolder, tenantId, `${workloadRef}.tar.gz`), archive);
}

async function writeHostile(life: Lifecycle, key: SnapshotKey): Promise<void> {
  const archive = gzipSync(rawTar([{ name: "data/../etc/passwd", content: Buffer.from("content") }]));
  const call = { signal: AbortSignal.timeout(60_000), timeoutMs: 60_000 };
  const { revision: replaces } = await life.store.look(key, call);
  async function* content(): AsyncGenerator<Uint8Array> {
    yield archive;
  }
  await life.store.put(key, content(), {
    ...{ ...call, replaces, most: { history: 0, replaced: 0 } },
    describe: () => ({
      ...{ uid: 0, gid: 0, entries: 1, contentBytes: 1024, overlayDirs: ["/data"] },
      createdAt: new Date().toISOString(),
    }),
  });
}

/** How many archives there are that do not count. */
async function leftovers(life: Lifecycle, key: SnapshotKey): Promise<number> {
  const { objects, store, volumeFolder } = life;
  if (objects === undefined) {
    return readdirSync(join(volumeFolder, key.tenantId)).filter((name) => name.endsWith(".partial")).length;
  }
  const { versions } = await store.look(key, { signal: AbortSignal.timeout(60_000), timeoutMs: 60_000 });
  return (await objects.archivesOf(key.tenantId)).length - versions.length - 1;
}

/** Leaves less than 4 MiB on a volume. */
function fill(path: string): void {
  const { bavail, bsize } = statfsSync(join(path, ".."));
  writeFileSync(path, Buffer.alloc(Math.max(0, bavail * bsize - 4 * 1024 ** 2)));
}

test.run();
