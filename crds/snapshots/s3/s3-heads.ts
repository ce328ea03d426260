import { createHash, randomBytes } from "node:crypto";
import * as v from "valibot";
import { ArchiveError } from "../../archive/archive-error.ts";
import { NetworkError } from "../../client/api-error.ts";
import { createBackoff } from "../../client/backoff.ts";
import type { Clock } from "../../client/clock.ts";
import { sleep } from "../../waits.ts";
import type { SnapshotKey } from "../snapshot-key.ts";
import { type SnapshotMetadata, snapshotMetadataSchema } from "../snapshot-metadata.ts";
import { type KeptAs, StoreConflict, StoreError } from "../snapshot-store.ts";
import { keptAsSchema } from "../store-protocol.ts";
import { createHeadCache } from "./head-cache.ts";
import { isMissing, type S3Bucket } from "./s3-bucket.ts";
import { BLOB, type S3Layout } from "./s3-layout.ts";

const MOST_SWAPS = 3;
/**
 * If this many reads in a row return the same content and headers, and the two do not belong together, no write is in
 * progress: the last read comes more than a second after the first.
 */
const MOST_SAME_LOOKS = 8;
const LOOK_PAUSE = { initialMs: 20, maxMs: 1000 };
const MOST_CACHED = 20_000;
/** The size of a head without archives. No other head has this size. */
export const EMPTY_HEAD_BYTES = JSON.stringify({ commit: "0".repeat(32), versions: [] }).length;
/** The least size of a head with an archive: its SHA-256, the name of its object, and the other metadata. */
const LEAST_HEAD_BYTES = 280;
/** The size of a head that has no archives, but a list of objects to erase. `ERASED_BYTES` comes for each of these. */
const ERASING_HEAD_BYTES = EMPTY_HEAD_BYTES + `,"erase":[]`.length - 1;
const ERASED_BYTES = `"20260101T000000Z-0123456789abcdef.tar.gz",`.length;

/** Whether a head of this size certainly names a newest archive, so that it need not be read. */
export function surelyNames(sizeBytes: number): boolean {
  return sizeBytes >= LEAST_HEAD_BYTES && (sizeBytes - ERASING_HEAD_BYTES) % ERASED_BYTES !== 0;
}

/**
 * Spaces after a head that names only checkpoints. With its size, it is not taken for a head that certainly names a
 * newest archive, also by programs of an earlier version.
 */
function paddingOf({ versions, checkpoints = [] }: S3Head, sizeBytes: number): string {
  if (versions.length > 0 || checkpoints.length === 0) return "";
  const beyond = (sizeBytes - ERASING_HEAD_BYTES) % ERASED_BYTES;
  return " ".repeat((ERASED_BYTES - beyond) % ERASED_BYTES);
}

/** The header that repeats the `commit` in the content. If both are equal, header and content are of the same write. */
const COMMIT = "x-amz-meta-commit";
/** An ETag that is the MD5 of the content, or looks like one: objects that a KMS key encrypts have random ones. */
const MD5_ETAG = /^"[0-9a-f]{32}"$/;

/** A head names only objects of its own key. */
const blob = v.pipe(v.string(), v.regex(BLOB));
const versionSchema = v.object({ ...snapshotMetadataSchema.entries, kept: v.optional(keptAsSchema), blob });
const headSchema = v.object({
  commit: v.string(),
  versions: v.array(versionSchema),
  checkpoints: v.optional(v.array(versionSchema)),
  erase: v.optional(v.array(blob)),
});

/** An archive of a head, and the last part of its object's name. */
export type S3Version = v.InferOutput<typeof versionSchema>;

/** The only object of a key that changes. Every write has the condition that the head is still as it was read. */
export interface S3Head {
  /** An id that is different in every head ever written. */
  readonly commit: string;
  /** The newest first. Empty after a deletion. */
  readonly versions: readonly S3Version[];
  /**
   * The archives that were saved as checkpoints since the newest one, the latest first. They are older versions. They
   * have a list of their own, since the first of `versions` is always the newest archive, and a key may have only
   * checkpoints. Programs of an earlier version ignore them.
   */
  readonly checkpoints?: readonly S3Version[] | undefined;
  /** The archives that a deletion still has to erase. */
  readonly erase?: readonly string[] | undefined;
}

/** The state of a key: its head, and the revision for conditions. */
export interface HeadState {
  /** Undefined if no archive was ever saved. */
  readonly head: S3Head | undefined;
  /** The head's `commit` and ETag. */
  readonly revision: string;
}

export interface S3Heads {
  /** @throws ArchiveError if the head belongs to another key, or cannot be parsed */
  read(key: SnapshotKey, signal: AbortSignal): Promise<HeadState>;
  /** The head with this ETag of a list, from the cache if it was read before. */
  listed(key: SnapshotKey, etag: string, signal: AbortSignal): Promise<S3Head | undefined>;
  /**
   * Replaces the state that was read with a head. If the response to a write is lost, checks whether it succeeded.
   *
   * @returns the revision
   * @throws StoreConflict if the state is another one. After any other error, the head may have been written
   */
  swap(key: SnapshotKey, change: { next: S3Head; replaces: string; signal: AbortSignal }): Promise<string>;
}

const NOTHING: HeadState = { head: undefined, revision: "none " };

export function createS3Heads(options: {
  bucket: S3Bucket;
  layout: S3Layout;
  clock: Clock;
  cachedHeads?: number | undefined;
}): S3Heads {
  const { bucket, layout, clock, cachedHeads = MOST_CACHED } = options;
  const cached = createHeadCache<S3Head>(cachedHeads);
  /** Whether the server's ETags are the MD5 of the content; undefined until it is known. */
  let hasDigests: boolean | undefined;

  /** Whether the ETag may be of the same write as the content. */
  function fits(etag: string, body: Buffer): boolean {
    if (hasDigests === false || !MD5_ETAG.test(etag)) return true;
    const isDigest = etag === etagOf(body);
    if (isDigest) hasDigests = true;
    return isDigest;
  }

  async function readWithEtag(
    key: SnapshotKey,
    signal: AbortSignal,
  ): Promise<{ readonly head: S3Head; readonly etag: string } | undefined> {
    const pause = createBackoff(LOOK_PAUSE);
    let seen = "";
    for (let same = 1; ; same += 1) {
      const answer = await bucket.send({ method: "GET", key: layout.head(key), signal });
      if (isMissing(answer)) return undefined;
      bucket.expect(answer, "read the archives", 200);
      const commit = answer.headers[COMMIT];
      if (answer.etag === "" || (commit === undefined && !answer.body.toString("utf8").startsWith('{"commit":"'))) {
        throw new StoreError(`Cannot read the archives: the response is not a head (${layout.head(key)})`, {
          isTransient: true,
        });
      }
      const head = parseHead(key, answer.body);
      const found = { head, etag: answer.etag };
      const isOfOneWrite = fits(answer.etag, answer.body);
      // Some servers read and write content, ETag and metadata one after the other. A write can come between them at
      // several reads in a row, and can pause for a while.
      if (commit === head.commit && isOfOneWrite) return found;
      const parts = `${commit} ${head.commit} ${answer.etag}`;
      if (seen !== parts) {
        same = 1;
        pause.reset();
      }
      seen = parts;
      if (same >= MOST_SAME_LOOKS) {
        // No write is in progress. The ETag is no digest, or another program has copied the bucket without the metadata
        // of its objects.
        if (commit === undefined || commit === head.commit) {
          if (!isOfOneWrite) hasDigests = false;
          return found;
        }
        throw new StoreError(`Cannot read the archives: ${layout.head(key)} is not as it was written`, {
          isTransient: true,
        });
      }
      await sleep(pause.next(), { clock, signal });
    }
  }

  function parseHead(key: SnapshotKey, body: Buffer): S3Head {
    const head = headIn(body);
    if (head === undefined) throw new ArchiveError("Corrupt", `${layout.head(key)} cannot be read`);
    for (const { tenantId, workloadRef } of archivesOf(head)) {
      if (tenantId === key.tenantId && workloadRef === key.workloadRef) continue;
      throw new ArchiveError("Foreign", `${layout.head(key)} is of tenant "${tenantId}" and workload "${workloadRef}"`);
    }
    return head;
  }

  async function read(key: SnapshotKey, signal: AbortSignal): Promise<HeadState> {
    const found = await readWithEtag(key, signal);
    return found === undefined ? NOTHING : { head: found.head, revision: revisionOf(found.head, found.etag) };
  }

  return {
    read,

    async listed(key, etag, signal) {
      const name = layout.head(key);
      const known = cached.get(name, etag);
      if (known !== undefined) return known;
      const found = await readWithEtag(key, signal);
      if (found !== undefined) cached.put(name, found);
      return found?.head;
    },

    async swap(key, { next, replaces, signal }) {
      const text = JSON.stringify(next);
      const body = Buffer.from(text + paddingOf(next, Buffer.byteLength(text)));
      const at = layout.head(key);
      const seen = replaces === NOTHING.revision ? undefined : replaces.slice(replaces.indexOf(" ") + 1);
      const condition: Record<string, string> = seen === undefined ? { "if-none-match": "*" } : { "if-match": seen };
      const own = { "content-type": "application/json", [COMMIT]: next.commit };
      const headers = { ...bucket.encryption, ...condition, ...own };
      for (let tries = 1; ; tries += 1) {
        let failure: unknown;
        try {
          const answer = await bucket.send({ method: "PUT", key: at, headers, body, signal });
          if (answer.status === 200 && answer.etag !== "") {
            if (MD5_ETAG.test(answer.etag)) hasDigests = answer.etag === etagOf(body);
            return revisionOf(next, answer.etag);
          }
          // 412, 409, 404: there is another head, or this one after an earlier try, or none.
          if (![200, 404, 409, 412].includes(answer.status) || answer.code === "NoSuchBucket") {
            bucket.expect(answer, "write the head", 200);
          }
        } catch (error) {
          const isOpen = error instanceof NetworkError || (error instanceof StoreError && error.isTransient);
          if (!isOpen || signal.aborted) throw error;
          failure = error;
        }
        const present = await read(key, signal);
        if (present.head?.commit === next.commit) return present.revision;
        // If the server refuses the condition, that counts, even if the head seems unchanged.
        if (failure === undefined || present.revision !== replaces) {
          throw new StoreConflict(`${at} has changed since it was read`);
        }
        if (tries >= MOST_SWAPS) throw failure;
      }
    },
  };
}

function headIn(body: Buffer): S3Head | undefined {
  try {
    return v.parse(headSchema, JSON.parse(body.toString("utf8")));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof v.ValiError) return undefined;
    throw error;
  }
}

function etagOf(body: Buffer): string {
  return `"${createHash("md5").update(body).digest("hex")}"`;
}

function revisionOf({ commit }: S3Head, etag: string): string {
  return `${commit} ${etag}`;
}

export function newCommit(): string {
  return randomBytes(16).toString("hex");
}

type Named = Pick<S3Head, "versions" | "checkpoints">;

/** The newest archive, if there is one, then the older versions with the checkpoints, the latest first. */
export function archivesOf(head: Named | undefined): S3Version[] {
  return [...(head?.versions ?? []).slice(0, 1), ...olderOf(head)];
}

/** The older versions with the checkpoints, the latest first. */
export function olderOf(head: Named | undefined): (S3Version & { readonly kept: KeptAs })[] {
  return [...(head?.checkpoints ?? []), ...(head?.versions ?? []).slice(1)].map(asOlder);
}

export function blobsOf(head: Named | undefined): ReadonlySet<string> {
  return new Set(archivesOf(head).map(({ blob }) => blob));
}

export function metadataOf({ blob: _, kept: __, ...metadata }: S3Version): SnapshotMetadata {
  return metadata;
}

/** Heads of older versions do not say why a version is kept. */
function asOlder(version: S3Version): S3Version & { readonly kept: KeptAs } {
  return { ...version, kept: version.kept ?? "replaced" };
}
