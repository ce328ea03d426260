import { randomBytes } from "node:crypto";
import { ArchiveError } from "../../archive/archive-error.ts";
import type { BuildContexts } from "../../builds/build-contexts.ts";
import { type Clock, systemClock } from "../../client/clock.ts";
import { isTenantId } from "../../names.ts";
import { orAborted } from "../../waits.ts";
import { limitCalls } from "../limit-calls.ts";
import { checkSnapshotKey, type SnapshotKey } from "../snapshot-key.ts";
import {
  type SnapshotStore,
  type SnapshotVersion,
  type StoreCall,
  StoreConflict,
  type StoreEntry,
  StoreError,
} from "../snapshot-store.ts";
import { openS3Archive } from "./s3-archive-reader.ts";
import { createS3Bucket, type S3Object } from "./s3-bucket.ts";
import { elementOf, elementsOf, type S3Client } from "./s3-client.ts";
import { createS3Commits } from "./s3-commits.ts";
import { createS3Contexts } from "./s3-contexts.ts";
import { asOlder, blobsOf, createS3Heads, metadataOf, newCommit, type S3Version } from "./s3-heads.ts";
import { s3Layout } from "./s3-layout.ts";
import { probeS3 } from "./s3-probe.ts";
import { createS3Uploads } from "./s3-uploads.ts";
import { createS3Usage } from "./s3-usage.ts";

export interface S3StoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
  /** What keys begin with, without a slash at the end; may be empty. */
  readonly prefix: string;
  /** Headers that ask for encryption by the server, of each object that is made. @default the bucket's own default */
  readonly encryption?: Readonly<Record<string, string>> | undefined;
  /** Whether the bucket was ever seen with its mark. @default it was not */
  readonly wasMarked?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  /** Bytes of a part of a large archive. @default 5 MiB, of which three are held at once */
  readonly partBytes?: number | undefined;
  /** Bytes that the server copies in one request. @default 5 GiB, the most that AWS does */
  readonly copyBytes?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface S3Store extends SnapshotStore {
  readonly contexts: BuildContexts;
  /**
   * Finds out whether archives can be kept here.
   *
   * @throws StoreError that says what is missing
   */
  check(call: StoreCall): Promise<void>;
}

const PART_BYTES = 5 * 1024 * 1024;
const COPY_BYTES = 5 * 1024 ** 3;
const REQUESTS_AT_ONCE = 16;
const PROBE_LIMIT_MS = 60_000;
const LEFTOVER_MS = 24 * 3_600_000;

/**
 * Archives in S3-compatible object storage that has conditional writes, under the names of {@link s3Layout}. An archive
 * that its head does not name does not exist for anybody, and is erased after a day.
 */
export function createS3Store(options: S3StoreOptions): S3Store {
  const { client, encryption = {}, wasMarked = async () => false, clock = systemClock } = options;
  const { partBytes = PART_BYTES, copyBytes = COPY_BYTES } = options;
  const layout = s3Layout(options.prefix);
  const bucket = createS3Bucket({ client, name: options.bucket, encryption });
  const heads = createS3Heads({ bucket, layout, clock });
  const uploads = createS3Uploads({ bucket, partBytes, copyBytes });
  const listed = (tenantId: string | undefined, signal: AbortSignal) => entries({ tenantId, versions: true }, signal);
  const usage = createS3Usage({ list: listed, clock });
  const { commit, checkRoom } = createS3Commits({ bucket, layout, heads, usage });
  const limited = limitCalls({ verb: "use object storage", clock });
  let probing: Promise<void> | undefined;

  /** Nothing is written to a server that was not found to do what commits stand on. */
  async function ensureProbed(signal: AbortSignal): Promise<void> {
    probing ??= probeS3({ bucket, layout, signal: AbortSignal.timeout(PROBE_LIMIT_MS) }).catch((error: unknown) => {
      probing = undefined;
      throw error;
    });
    await orAborted(probing, signal);
  }

  /** Whether anything was ever saved here, as far as it may be believed. */
  async function checkMark(signal: AbortSignal): Promise<"marked" | "unmarked"> {
    if (await bucket.exists(layout.mark, signal)) return "marked";
    if (!(await wasMarked(signal))) return "unmarked";
    throw new StoreError(
      `Cannot keep archives in bucket "${bucket.name}"${options.prefix && ` under ${options.prefix}`}: there are none, ` +
        "and some were kept there or in another store; copy them here, or set TENANCY_SNAPSHOT_STORE_EMPTY=true where " +
        "another store's are given up",
      { isTransient: false },
    );
  }

  async function ensureMark(signal: AbortSignal): Promise<void> {
    await ensureProbed(signal);
    if ((await checkMark(signal)) === "marked") return;
    await bucket.put(layout.mark, Buffer.from("archives are kept here\n"), { what: "write the mark", signal });
  }

  async function erase(key: SnapshotKey, blob: string, signal: AbortSignal): Promise<void> {
    await bucket.erase(layout.archive(key, blob), signal);
  }

  function newBlob(createdAt = new Date(clock.now()).toISOString()): string {
    return `${createdAt.replace(/[-:]|\.\d+/g, "")}-${randomBytes(8).toString("hex")}.tar.gz`;
  }

  async function entriesOf(
    object: S3Object,
    options: { usedAt: ReadonlyMap<string, string>; versions: boolean; signal: AbortSignal },
  ): Promise<StoreEntry[]> {
    const { usedAt, versions, signal } = options;
    const key = layout.keyOfHead(object.key);
    if (key === undefined) return [];
    const noted = usedAt.get(layout.used(key)) ?? "";
    const latest = noted > object.at ? noted : object.at;
    const head = await unlessWrong(heads.listed(key, object.etag, signal));
    if (head === "wrong") return [{ ...key, sizeBytes: 0, usedAt: latest, metadata: undefined }];
    return (head?.versions ?? []).slice(0, versions ? undefined : 1).map((version, index) => ({
      ...key,
      ...(index > 0 && { version: version.sha256.slice(0, 16), kept: asOlder(version).kept }),
      sizeBytes: version.sizeBytes,
      usedAt: latest,
      metadata: metadataOf(version),
    }));
  }

  /** ISO 8601 time at which a key was written or last in use, by the storage's clock. */
  async function usedAtOf(key: SnapshotKey, signal: AbortSignal): Promise<string> {
    const names = [layout.head(key), layout.used(key)];
    const found = await Promise.all(names.map((name) => bucket.list(name, signal)));
    const times = found.flatMap((objects, index) => objects.filter((object) => object.key === names[index]));
    return times.map(({ at }) => at).reduce((latest, at) => (at > latest ? at : latest), "");
  }

  async function entries(
    { tenantId, versions }: { tenantId?: string | undefined; versions: boolean },
    signal: AbortSignal,
  ): Promise<StoreEntry[]> {
    if (tenantId !== undefined && !isTenantId(tenantId)) return [];
    const [objects, used] = await Promise.all([
      bucket.list(layout.heads(tenantId), signal),
      bucket.list(layout.usedUnder(tenantId), signal),
    ]);
    const usedAt = new Map(used.map(({ key, at }) => [key, at]));
    const found = await inTurns(objects, (object) => entriesOf(object, { usedAt, versions, signal }));
    return found.flat();
  }

  /** Ends uploads that were never completed. */
  async function abortUploads(prefix: string, isOld: (at: string) => boolean, signal: AbortSignal): Promise<void> {
    const query = { uploads: "", prefix };
    const listed = bucket.expect(await bucket.send({ method: "GET", query, signal }), "list uploads", 200);
    for (const inside of elementsOf(listed.body.toString("utf8"), "Upload")) {
      const [key = "", uploadId = "", at = ""] = ["Key", "UploadId", "Initiated"].map((name) =>
        elementOf(inside, name),
      );
      if (key.startsWith(prefix) && isOld(at)) await uploads.abort(key, uploadId);
    }
  }

  /** Erases archives that no head names, at the cost of a request for each head that has changed since the last time. */
  async function eraseUnnamed(isOld: (at: string) => boolean, signal: AbortSignal): Promise<void> {
    const old = new Map<string, { readonly key: SnapshotKey; readonly blobs: string[] }>();
    for (const { key: name, at } of await bucket.list(layout.archives, signal)) {
      const archive = layout.keyOfArchive(name);
      if (!isOld(at) || archive === undefined) continue;
      const of = layout.head(archive.key);
      const { blobs } = old.get(of) ?? { blobs: [] };
      old.set(of, { key: archive.key, blobs: [...blobs, archive.blob] });
    }
    const etags = new Map((await bucket.list(layout.heads(), signal)).map(({ key, etag }) => [key, etag]));
    await inTurns([...old], async ([name, { key, blobs }]) => {
      const etag = etags.get(name);
      // Somebody may have lost the head; what it named is for a person to find out, as of one that cannot be read.
      const head = etag === undefined ? "wrong" : await unlessWrong(heads.listed(key, etag, signal));
      if (head === "wrong") return;
      const listed = blobsOf(head);
      const unnamed = blobs.filter((blob) => !listed.has(blob));
      if (unnamed.length === 0) return;
      // Read after the archives were listed, so that one which was named before is known as that.
      const named = blobsOf((await heads.read(key, signal)).head);
      for (const blob of unnamed) if (!named.has(blob)) await erase(key, blob, signal);
    });
  }

  return {
    check: (call) =>
      limited(call, async (signal) => {
        await ensureProbed(signal);
        await checkMark(signal);
      }),

    async look(key, call) {
      checkSnapshotKey(key);
      return await limited(call, async (signal) => {
        const { head, revision } = await heads.read(key, signal);
        const [first, ...older] = head?.versions ?? [];
        const versions = older.map((one): SnapshotVersion => ({ ...metadataOf(one), kept: asOlder(one).kept }));
        const newest = first && metadataOf(first);
        if (newest !== undefined) return { revision, state: "kept", newest, versions };
        return { revision, state: (await bucket.exists(layout.mark, signal)) ? "none" : "unmarked", versions: [] };
      });
    },

    async open(key, sha256, call) {
      checkSnapshotKey(key);
      return await openS3Archive({ bucket, limited, call }, async (signal) => {
        const { head } = await heads.read(key, signal);
        const version = head?.versions.find((one) => one.sha256 === sha256);
        return version && { at: layout.archive(key, version.blob), metadata: metadataOf(version) };
      });
    },

    async put(key, archive, call) {
      checkSnapshotKey(key);
      return await limited(call, async (signal) => {
        await ensureMark(signal);
        const blob = newBlob();
        const { sha256, sizeBytes } = await uploads.write(layout.archive(key, blob), archive, signal);
        const { tenantId, workloadRef } = key;
        function describe(): S3Version {
          const described = call.describe();
          const overlayDirs = [...described.overlayDirs];
          return { sha256, sizeBytes, tenantId, workloadRef, ...described, overlayDirs, blob };
        }
        return await commit(key, { blob, isOwn: true, describe }, { ...call, signal });
      });
    },

    async checkRoom(key, call) {
      checkSnapshotKey(key);
      await limited(call, (signal) => checkRoom(key, { ...call, signal }));
    },

    async adopt(key, from, call) {
      checkSnapshotKey(key);
      checkSnapshotKey(from);
      return await limited(call, async (signal) => {
        const { head } = await heads.read(from, signal);
        const version = head?.versions.find((one) => one.sha256 === from.sha256);
        if (version === undefined) return undefined;
        await ensureMark(signal);
        const source = { at: layout.archive(from, version.blob), sizeBytes: version.sizeBytes };
        // A rollback stores nothing: the head names the same object once more.
        const isOwn = from.tenantId !== key.tenantId || from.workloadRef !== key.workloadRef;
        const blob = isOwn ? newBlob() : version.blob;
        const isThere = isOwn
          ? await uploads.copy(layout.archive(key, blob), source, signal)
          : (await bucket.list(source.at, signal)).some(({ key }) => key === source.at);
        if (!isThere) return undefined;
        const { podUid: _, kept: __, lineage: ___, copied: ____, ...saved } = version;
        const { tenantId, workloadRef } = key;
        const own = { ...saved, tenantId, workloadRef, createdAt: call.createdAt, blob };
        return await commit(key, { blob, isOwn, describe: () => own }, { ...call, signal });
      });
    },

    async delete(key, call) {
      checkSnapshotKey(key);
      return await limited(call, async (signal) => {
        const { head, revision: present } = await heads.read(key, signal);
        if (call.replaces !== undefined && call.replaces !== present) {
          throw new StoreConflict(`${layout.head(key)} is another than when it was looked at`);
        }
        const { versions, erase: left = [] } = head ?? { versions: [] };
        if (call.unusedForMs !== undefined) {
          const usedAt = await usedAtOf(key, signal);
          // A server may tell the time from a second ago.
          const unusedMs = Math.max(0, (await bucket.now(signal)) - Date.parse(usedAt));
          if (usedAt === "" || unusedMs < call.unusedForMs) return false;
        }
        const blobs = [...new Set([...blobsOf(head), ...left])];
        const isNothing = versions.length === 0 && blobs.length === 0;
        if (isNothing && call.unusedForMs !== undefined) return false;
        // After this the key has no archive, also where what follows fails and a later call has to go on with it. It is
        // written where there is nothing, too: a save whose answer was lost may arrive yet, and is refused then.
        const without = { commit: newCommit(), versions: [], erase: blobs };
        const revision = await heads.swap(key, { next: without, replaces: present, signal });
        if (isNothing) return false;
        usage.note(key, []);
        await Promise.all(blobs.map((blob) => erase(key, blob, signal)));
        await bucket.send({ method: "DELETE", key: layout.used(key), signal });
        const next = { commit: newCommit(), versions: [] };
        await heads.swap(key, { next, replaces: revision, signal }).catch((error: unknown) => {
          // A save that came since has the blobs of its own.
          if (!(error instanceof StoreConflict)) throw error;
        });
        return true;
      });
    },

    list: (filter, call) => limited(call, (signal) => entries(filter, signal)),

    names: (call) =>
      limited(call, async (signal) => {
        const options = { usedAt: new Map<string, string>(), versions: false, signal };
        const found = await inTurns(await bucket.list(layout.heads(), signal), (head) => entriesOf(head, options));
        return found.flat().map(({ tenantId, workloadRef }) => ({ tenantId, workloadRef }));
      }),

    async touch(keys, call) {
      for (const key of keys) checkSnapshotKey(key);
      await limited(call, async (signal) => {
        const what = "note that an archive is in use";
        await inTurns(keys, (key) => bucket.put(layout.used(key), Buffer.alloc(0), { what, signal }));
      });
    },

    space: async () => undefined,

    usage: (call) => limited(call, usage.all),

    tidy: (call) =>
      limited(call, async (signal) => {
        // A clock of this process's that is ahead would have it erase what is just being saved.
        const now = await bucket.now(signal);
        const isOld = (at: string): boolean => now - Date.parse(at) > LEFTOVER_MS;
        // Without a prefix, others may have uploads in the bucket.
        for (const prefix of [layout.archives, layout.contexts]) await abortUploads(prefix, isOld, signal);
        await eraseUnnamed(isOld, signal);
        for (const { key, at } of await bucket.list(layout.contexts, signal)) {
          if (layout.contextOf(key)?.isReceived === true && isOld(at)) await bucket.erase(key, signal);
        }
      }),

    contexts: createS3Contexts({ bucket, layout, uploads, limited }),
    close: bucket.close,
  };
}

/** Has one head that is not the key's own, or no head, keep nobody from a look at all the others. */
async function unlessWrong<T>(read: Promise<T>): Promise<T | "wrong"> {
  return await read.catch((error: unknown) => {
    if (error instanceof ArchiveError) return "wrong";
    throw error;
  });
}

/** Does the work for each, some at once. */
async function inTurns<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let from = 0; from < all.length; from += REQUESTS_AT_ONCE) {
    results.push(...(await Promise.all(all.slice(from, from + REQUESTS_AT_ONCE).map(work))));
  }
  return results;
}
