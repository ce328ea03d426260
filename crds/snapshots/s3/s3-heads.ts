import { randomBytes } from "node:crypto";
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
 * So many looks in a row at the same content and headers, which do not belong together, are no write that goes on: the
 * last comes more than a second after the first.
 */
const MOST_SAME_LOOKS = 8;
const LOOK_PAUSE = { initialMs: 20, maxMs: 1000 };
const MOST_CACHED = 20_000;
/** Bytes of a head without archives; no other has so many. */
export const EMPTY_HEAD_BYTES = JSON.stringify({ commit: "0".repeat(32), versions: [] }).length;
/** Bytes that a head with an archive has at least: its SHA-256, the name of its object, and what else is recorded. */
const LEAST_HEAD_BYTES = 280;
/** Bytes of a head that has nothing but what a deletion has still to erase: so many, and so many for each. */
const ERASING_HEAD_BYTES = EMPTY_HEAD_BYTES + `,"erase":[]`.length - 1;
const ERASED_BYTES = `"20260101T000000Z-0123456789abcdef.tar.gz",`.length;

/** Whether a head of that size surely names an archive, so that no look at it is needed. */
export function surelyNames(sizeBytes: number): boolean {
  return sizeBytes >= LEAST_HEAD_BYTES && (sizeBytes - ERASING_HEAD_BYTES) % ERASED_BYTES !== 0;
}

/** Repeats the content of a head, to prove that both belong to one write. */
const COMMIT = "x-amz-meta-commit";

/** A head names no object that is not its key's own. */
const blob = v.pipe(v.string(), v.regex(BLOB));
const versionSchema = v.object({ ...snapshotMetadataSchema.entries, kept: v.optional(keptAsSchema), blob });
const headSchema = v.object({
  commit: v.string(),
  versions: v.array(versionSchema),
  erase: v.optional(v.array(blob)),
});

/** An archive that counts, and the last part of its object's name. */
export type S3Version = v.InferOutput<typeof versionSchema>;

/** The one object of a key that changes, always under the condition that it is as it was seen. */
export interface S3Head {
  /** Different in every head that was ever written. */
  readonly commit: string;
  /** The newest first; empty where all were deleted. */
  readonly versions: readonly S3Version[];
  /** Archives that a deletion has still to erase. */
  readonly erase?: readonly string[] | undefined;
}

/** The state of a key: its head, and what names it in a condition. */
export interface HeadState {
  /** Undefined where no archive was ever saved. */
  readonly head: S3Head | undefined;
  /** The head's own name for itself, and its ETag. */
  readonly revision: string;
}

export interface S3Heads {
  /** @throws ArchiveError when the head is of another key, or cannot be understood */
  read(key: SnapshotKey, signal: AbortSignal): Promise<HeadState>;
  /** A head by its ETag in a list, from memory where it was read before. */
  listed(key: SnapshotKey, etag: string, signal: AbortSignal): Promise<S3Head | undefined>;
  /**
   * Writes a head in the place of the state that was seen, and finds out what became of a write whose answer was lost.
   *
   * @returns the revision
   * @throws StoreConflict when another state is there; what else it throws says not whether it was written
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

  async function readWithEtag(
    key: SnapshotKey,
    signal: AbortSignal,
  ): Promise<{ readonly head: S3Head; readonly etag: string } | undefined> {
    const pause = createBackoff(LOOK_PAUSE);
    let seen = "";
    for (let same = 1; ; same += 1) {
      const answer = await bucket.send({ method: "GET", key: layout.head(key), signal });
      if (isMissing(answer)) return undefined;
      bucket.expect(answer, "look at the archives", 200);
      const commit = answer.headers[COMMIT];
      if (answer.etag === "" || (commit === undefined && !answer.body.toString("utf8").startsWith('{"commit":"'))) {
        throw new StoreError(`Cannot look at the archives: what was answered is no head (${layout.head(key)})`, {
          isTransient: true,
        });
      }
      const head = parseHead(key, answer.body);
      // Some servers read and write content and headers in two steps. A write can come between, to each of many looks,
      // and stand still for a while.
      if (commit === head.commit) return { head, etag: answer.etag };
      if (seen !== `${commit} ${head.commit}`) {
        same = 1;
        pause.reset();
      }
      seen = `${commit} ${head.commit}`;
      if (same >= MOST_SAME_LOOKS) {
        // A bucket that another program has copied without what its objects say of themselves: no write of ours goes
        // on.
        if (commit === undefined) return { head, etag: answer.etag };
        throw new StoreError(`Cannot look at the archives: ${layout.head(key)} is not as it was written`, {
          isTransient: true,
        });
      }
      await sleep(pause.next(), { clock, signal });
    }
  }

  function parseHead(key: SnapshotKey, body: Buffer): S3Head {
    const head = headIn(body);
    if (head === undefined) throw new ArchiveError("Corrupt", `${layout.head(key)} cannot be read`);
    for (const { tenantId, workloadRef } of head.versions) {
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
      const body = Buffer.from(JSON.stringify(next));
      const at = layout.head(key);
      const seen = replaces === NOTHING.revision ? undefined : replaces.slice(replaces.indexOf(" ") + 1);
      const condition: Record<string, string> = seen === undefined ? { "if-none-match": "*" } : { "if-match": seen };
      const own = { "content-type": "application/json", [COMMIT]: next.commit };
      const headers = { ...bucket.encryption, ...condition, ...own };
      for (let tries = 1; ; tries += 1) {
        let failure: unknown;
        try {
          const answer = await bucket.send({ method: "PUT", key: at, headers, body, signal });
          if (answer.status === 200 && answer.etag !== "") return revisionOf(next, answer.etag);
          // 412, 409, 404: another head is there, or this one since an earlier try, or none.
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
        // A server that refuses the condition has the last word, whatever a look at it says.
        if (failure === undefined || present.revision !== replaces) {
          throw new StoreConflict(`${at} has changed since this began`);
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

function revisionOf({ commit }: S3Head, etag: string): string {
  return `${commit} ${etag}`;
}

export function newCommit(): string {
  return randomBytes(16).toString("hex");
}

export function blobsOf(head: Pick<S3Head, "versions"> | undefined): ReadonlySet<string> {
  return new Set((head?.versions ?? []).map(({ blob }) => blob));
}

export function metadataOf({ blob: _, kept: __, ...metadata }: S3Version): SnapshotMetadata {
  return metadata;
}

/** Heads of older programs do not say why a version was kept. */
export function asOlder(version: S3Version): S3Version & { readonly kept: KeptAs } {
  return { ...version, kept: version.kept ?? "replaced" };
}
