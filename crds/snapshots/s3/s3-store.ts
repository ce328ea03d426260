import { randomBytes } from "node:crypto";
import type { BuildContexts } from "../../builds/build-contexts.ts";
import { type Clock, systemClock } from "../../client/clock.ts";
import { inTurns } from "../../in-turns.ts";
import type { UsageStore } from "../../usage/usage-store.ts";
import { orAborted } from "../../waits.ts";
import { asOrdinary } from "../kept-versions.ts";
import { limitCalls } from "../limit-calls.ts";
import { checkSnapshotKey, type SnapshotKey } from "../snapshot-key.ts";
import {
  type CommittedSnapshot,
  type SnapshotStore,
  type SnapshotVersion,
  type StoreCall,
  StoreConflict,
  type StoreEntry,
  StoreError,
} from "../snapshot-store.ts";
import { eachInPages, type PageFilter } from "../store-pages.ts";
import { openS3Archive } from "./s3-archive-reader.ts";
import { createS3Bucket } from "./s3-bucket.ts";
import type { S3Client } from "./s3-client.ts";
import { createS3Commits } from "./s3-commits.ts";
import { createS3Contexts } from "./s3-contexts.ts";
import { archivesOf, blobsOf, createS3Heads, metadataOf, newCommit, olderOf, type S3Version } from "./s3-heads.ts";
import { s3Layout } from "./s3-layout.ts";
import { createS3Lists } from "./s3-lists.ts";
import { probeS3 } from "./s3-probe.ts";
import { createS3Records } from "./s3-records.ts";
import { createS3Tidy } from "./s3-tidy.ts";
import { createS3Uploads } from "./s3-uploads.ts";
import { createS3Usage } from "./s3-usage.ts";

export interface S3StoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
  /** The prefix of all names, without a slash at the end; may be empty. */
  readonly prefix: string;
  /** Headers that request encryption by the server, for each created object. @default the bucket's default applies */
  readonly encryption?: Readonly<Record<string, string>> | undefined;
  /** Whether the bucket ever had its mark. @default it did not */
  readonly wasMarked?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  /** The size of a part of a large archive. @default 5 MiB; three parts are in memory at once */
  readonly partBytes?: number | undefined;
  /** The most bytes that the server copies in one request. @default 5 GiB, the limit of AWS */
  readonly copyBytes?: number | undefined;
  /** How many heads are cached. @default 20 000 */
  readonly cachedHeads?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface S3Store extends SnapshotStore {
  readonly contexts: BuildContexts;
  readonly usageRecords: UsageStore;
  /**
   * Checks whether archives can be kept here.
   *
   * @throws StoreError that names what is missing
   */
  check(call: StoreCall): Promise<void>;
}

const PART_BYTES = 5 * 1024 * 1024;
const COPY_BYTES = 5 * 1024 ** 3;
const PROBE_LIMIT_MS = 60_000;
/** The most tries of a small change while other writers change the head. */
const MOST_SWAPS = 5;

/**
 * Archives in S3-compatible object storage with conditional writes, under the names of {@link s3Layout}. An archive
 * that its head does not name is never read, and is erased after a day.
 */
export function createS3Store(options: S3StoreOptions): S3Store {
  const { client, encryption = {}, wasMarked = async () => false, clock = systemClock } = options;
  const { partBytes = PART_BYTES, copyBytes = COPY_BYTES, cachedHeads } = options;
  const layout = s3Layout(options.prefix);
  const bucket = createS3Bucket({ client, name: options.bucket, encryption });
  const heads = createS3Heads({ bucket, layout, clock, cachedHeads });
  const uploads = createS3Uploads({ bucket, partBytes, copyBytes });
  const lists = createS3Lists({ bucket, layout, heads });
  const usage = createS3Usage({ bucket, layout, listTenant, clock });
  const tidy = createS3Tidy({ bucket, layout, heads, uploads });
  const commits = createS3Commits({ bucket, layout, heads, usage });
  const limited = limitCalls({ verb: "use object storage", clock });
  let probing: Promise<void> | undefined;

  /** Probes the server once before the first write, since commits depend on conditional writes. */
  async function ensureProbed(signal: AbortSignal): Promise<void> {
    probing ??= probeS3({ bucket, layout, signal: AbortSignal.timeout(PROBE_LIMIT_MS) }).catch((error: unknown) => {
      probing = undefined;
      throw error;
    });
    await orAborted(probing, signal);
  }

  /** Whether the store has its mark. @throws StoreError if it had the mark before */
  async function checkMark(signal: AbortSignal): Promise<"marked" | "unmarked"> {
    if (await bucket.exists(layout.mark, signal)) return "marked";
    if (!(await wasMarked(signal))) return "unmarked";
    throw new StoreError(
      `Cannot keep archives in bucket "${bucket.name}"${options.prefix && ` under ${options.prefix}`}: it is empty, ` +
        "but archives were kept there or in another store. Copy them here, or set TENANCY_SNAPSHOT_STORE_EMPTY=true to " +
        "give them up",
      { isTransient: false },
    );
  }

  async function ensureMark(signal: AbortSignal): Promise<void> {
    await ensureProbed(signal);
    if ((await checkMark(signal)) === "marked") return;
    await bucket.put(layout.mark, Buffer.from("archives are kept here\n"), { what: "write the mark", signal });
  }

  /** Repeats a change of a head that does not depend on what other writers do. */
  async function untilSwapped<T>(call: StoreCall, change: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return await limited(call, async (signal) => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await change(signal);
        } catch (error) {
          if (!(error instanceof StoreConflict) || tries >= MOST_SWAPS) throw error;
        }
      }
    });
  }

  async function erase(key: SnapshotKey, blob: string, signal: AbortSignal): Promise<void> {
    await bucket.erase(layout.archive(key, blob), signal);
  }

  function newBlob(createdAt = new Date(clock.now()).toISOString()): string {
    return `${createdAt.replace(/[-:]|\.\d+/g, "")}-${randomBytes(8).toString("hex")}.tar.gz`;
  }

  /** When a key was written or last in use, as an ISO 8601 time of the storage's clock. */
  async function usedAtOf(key: SnapshotKey, signal: AbortSignal): Promise<string> {
    const names = [layout.head(key), layout.used(key)];
    const found = await Promise.all(names.map((name) => bucket.list(name, signal)));
    const times = found.flatMap((objects, index) => objects.filter((object) => object.key === names[index]));
    return times.map(({ at }) => at).reduce((latest, at) => (at > latest ? at : latest), "");
  }

  async function listTenant(tenantId: string, signal: AbortSignal): Promise<StoreEntry[]> {
    const entries: StoreEntry[] = [];
    const read = (page: Pick<PageFilter, "after" | "limit">) =>
      lists.list({ ...page, tenantId, versions: true }, signal);
    for await (const entry of eachInPages(read)) entries.push(entry);
    return entries;
  }

  return {
    composes: false,
    check: (call) =>
      limited(call, async (signal) => {
        await ensureProbed(signal);
        await checkMark(signal);
      }),

    async look(key, call) {
      checkSnapshotKey(key);
      return await limited(call, async (signal) => {
        const { head, revision } = await heads.read(key, signal);
        const first = head?.versions[0];
        const versions = olderOf(head).map((one): SnapshotVersion => ({ ...metadataOf(one), kept: one.kept }));
        const newest = first && metadataOf(first);
        if (newest !== undefined) return { revision, state: "kept", newest, versions };
        return { revision, state: (await bucket.exists(layout.mark, signal)) ? "none" : "unmarked", versions };
      });
    },

    async open(key, sha256, call) {
      checkSnapshotKey(key);
      return await openS3Archive({ bucket, limited, call }, async (signal) => {
        const { head } = await heads.read(key, signal);
        const version = archivesOf(head).find((one) => one.sha256 === sha256);
        return version && { at: layout.archive(key, version.blob), metadata: metadataOf(version) };
      });
    },

    async put(key, archive, call) {
      checkSnapshotKey(key);
      return await limited(call, async (signal) => {
        await ensureMark(signal);
        const blob = newBlob();
        const at = layout.archive(key, blob);
        return await usage.whileWriting(at, async () => {
          const { sha256, sizeBytes } = await uploads.write(at, archive, signal);
          const { tenantId, workloadRef } = key;
          function describe(): S3Version {
            const described = call.describe({ sizeBytes });
            const overlayDirs = [...described.overlayDirs];
            return { sha256, sizeBytes, tenantId, workloadRef, ...described, overlayDirs, blob };
          }
          return await commits.commit(key, { blob, isOwn: true, describe }, { ...call, signal });
        });
      });
    },

    async checkRoom(key, call) {
      checkSnapshotKey(key);
      await limited(call, (signal) => commits.checkRoom(key, { ...call, signal }));
    },

    async adopt(key, from, call) {
      checkSnapshotKey(key);
      checkSnapshotKey(from);
      return await limited(call, async (signal) => {
        const { head } = await heads.read(from, signal);
        const version = archivesOf(head).find((one) => one.sha256 === from.sha256);
        if (version === undefined) return undefined;
        await ensureMark(signal);
        const source = { at: layout.archive(from, version.blob), sizeBytes: version.sizeBytes };
        // A rollback stores nothing: the head names the same object again.
        const isOwn = from.tenantId !== key.tenantId || from.workloadRef !== key.workloadRef;
        const blob = isOwn ? newBlob() : version.blob;
        const at = layout.archive(key, blob);
        const { podUid: _, kept: __, lineage: ___, copied: ____, names: _____, ...saved } = asOrdinary(version);
        const ownKey = { tenantId: key.tenantId, workloadRef: key.workloadRef };
        async function adopt(): Promise<CommittedSnapshot | undefined> {
          const isThere = isOwn
            ? await uploads.copy(at, source, signal)
            : (await bucket.list(source.at, signal)).some(({ key }) => key === source.at);
          if (!isThere) return undefined;
          const { createdAt, sandbox = saved.sandbox } = call;
          const own = { ...saved, ...ownKey, createdAt, blob, ...(sandbox !== undefined && { sandbox }) };
          return await commits.commit(key, { blob, isOwn, describe: () => own }, { ...call, signal });
        }
        return isOwn ? await usage.whileWriting(at, adopt) : await adopt();
      });
    },

    async dropCheckpoint(key, call) {
      checkSnapshotKey(key);
      return await untilSwapped(call, (signal) => commits.dropCheckpoint(key, { session: call.session, signal }));
    },

    async setName(key, named, call) {
      checkSnapshotKey(key);
      return await untilSwapped(call, (signal) => commits.setName(key, named, signal));
    },

    async dropName(key, name, call) {
      checkSnapshotKey(key);
      return await untilSwapped(call, (signal) => commits.dropName(key, name, signal));
    },

    async delete(key, call) {
      checkSnapshotKey(key);
      return await limited(call, async (signal) => {
        const { head, revision: present } = await heads.read(key, signal);
        if (call.replaces !== undefined && call.replaces !== present) {
          throw new StoreConflict(`${layout.head(key)} has changed since it was read`);
        }
        const left = head?.erase ?? [];
        const archives = archivesOf(head);
        if (call.unusedForMs !== undefined) {
          const usedAt = await usedAtOf(key, signal);
          // The time in a server's response may be up to a second old.
          const unusedMs = Math.max(0, (await bucket.now(signal)) - Date.parse(usedAt));
          if (usedAt === "" || unusedMs < call.unusedForMs) return false;
        }
        const blobs = [...new Set([...blobsOf(head), ...left])];
        const isNothing = blobs.length === 0;
        if (isNothing && call.unusedForMs !== undefined) return false;
        // After this write the key has no archive, even if the next steps fail and a later call has to continue them.
        // The head is also written if there is no archive: a save whose response was lost may still arrive, and is then
        // refused.
        const without = { commit: newCommit(), versions: [], erase: blobs };
        const revision = await heads.swap(key, { next: without, replaces: present, signal });
        if (isNothing) return false;
        usage.note(key, { from: archives, to: [] });
        await Promise.all(blobs.map((blob) => erase(key, blob, signal)));
        await bucket.send({ method: "DELETE", key: layout.used(key), signal });
        const next = { commit: newCommit(), versions: [] };
        await heads.swap(key, { next, replaces: revision, signal }).catch((error: unknown) => {
          // A conflict means that a save came in between. Its head names only its own blobs.
          if (!(error instanceof StoreConflict)) throw error;
        });
        return true;
      });
    },

    list: (filter, call) => limited(call, (signal) => lists.list(filter, signal)),

    names: (filter, call) => limited(call, (signal) => lists.names(filter, signal)),

    uses: (filter, call) => limited(call, (signal) => lists.uses(filter, signal)),

    async touch(keys, call) {
      for (const key of keys) checkSnapshotKey(key);
      await limited(call, async (signal) => {
        const what = "note that an archive is in use";
        await inTurns(keys, (key) => bucket.put(layout.used(key), Buffer.alloc(0), { what, signal }));
      });
    },

    space: async () => undefined,

    usage: (call) => limited(call, usage.all),

    tidy: (call) => limited(call, tidy),

    contexts: createS3Contexts({ bucket, layout, uploads, limited }),
    usageRecords: createS3Records({ bucket, layout, limited }),
    close: bucket.close,
  };
}
