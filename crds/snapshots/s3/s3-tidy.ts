import { inTurns } from "../../in-turns.ts";
import type { SnapshotKey } from "../snapshot-key.ts";
import type { S3Bucket, S3Object } from "./s3-bucket.ts";
import { elementOf, elementsOf } from "./s3-client.ts";
import { blobsOf, EMPTY_HEAD_BYTES, type S3Heads, surelyNames } from "./s3-heads.ts";
import type { S3Layout } from "./s3-layout.ts";
import { unlessWrong } from "./s3-lists.ts";
import type { S3Uploads } from "./s3-uploads.ts";

const LEFTOVER_MS = 24 * 3_600_000;
/** If a head was written this long after an archive, it may be a later head, which does not name the archive. */
const COMMIT_MS = 3_600_000;
/** The most heads read in one run. The next run continues where this one stopped. */
const MOST_HEADS_READ = 10_000;

/** The archives of a key in the bucket. */
interface Group {
  readonly key: SnapshotKey;
  readonly blobs: S3Object[];
}

/** Erases leftovers of calls that did not finish, if they are older than a day. */
export function createS3Tidy(options: {
  bucket: S3Bucket;
  layout: S3Layout;
  heads: S3Heads;
  uploads: S3Uploads;
}): (signal: AbortSignal) => Promise<void> {
  const { bucket, layout, heads, uploads } = options;
  /** The name of the archive that the last run stopped at. */
  let goesOnBehind: string | undefined;

  /** Aborts old uploads that were never completed. */
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

  /** All archives in the bucket, grouped by key; each item has several keys. */
  async function* groups(signal: AbortSignal): AsyncGenerator<{ some: Group[]; last: string | undefined }> {
    let open: Group | undefined;
    for await (const objects of bucket.pages(layout.archives, { after: goesOnBehind, signal })) {
      const some: Group[] = [];
      for (const object of objects) {
        const archive = layout.keyOfArchive(object.key);
        if (archive === undefined) continue;
        if (open !== undefined && layout.head(open.key) === layout.head(archive.key)) {
          open.blobs.push(object);
          continue;
        }
        if (open !== undefined) some.push(open);
        open = { key: archive.key, blobs: [object] };
      }
      yield { some, last: some.at(-1)?.blobs.at(-1)?.key };
    }
    if (open !== undefined) yield { some: [open], last: undefined };
  }

  async function headsOf(some: readonly Group[], signal: AbortSignal): Promise<ReadonlyMap<string, S3Object>> {
    const found = new Map<string, S3Object>();
    const names = some.map(({ key }) => layout.head(key)).sort();
    const wanted = new Set(names);
    const [first, last] = [names[0], names.at(-1)];
    if (first === undefined || last === undefined) return found;
    for await (const objects of bucket.pages(layout.heads(), { after: first.slice(0, -1), signal })) {
      // Between two of these heads there may be many heads of keys whose archives were erased.
      for (const object of objects) if (wanted.has(object.key)) found.set(object.key, object);
      if ((objects.at(-1)?.key ?? "") >= last) break;
    }
    return found;
  }

  /** @returns how many heads were read */
  async function eraseOf(
    { key, blobs }: Group,
    { head, isOld, signal }: { head: S3Object | undefined; isOld: (at: string) => boolean; signal: AbortSignal },
  ): Promise<number> {
    const old = blobs.filter(({ at }) => isOld(at));
    // Without a head nothing is erased: the head may have been lost, and a person has to find out what it named.
    if (old.length === 0 || head === undefined) return 0;
    const isEmpty = head.sizeBytes === EMPTY_HEAD_BYTES;
    if (isNamed(blobs, head)) return 0;
    const listed = isEmpty ? undefined : await unlessWrong(heads.listed(key, head.etag, signal));
    // A wrong head is treated like a lost one.
    if (listed === "wrong") return 1;
    const names = blobsOf(listed);
    const unnamed = old.filter((object) => !names.has(blobIn(object)));
    if (unnamed.length === 0) return 1;
    // The head is read again after the archives were listed, so that it names every listed archive that is in use.
    const named = blobsOf((await heads.read(key, signal)).head);
    for (const object of unnamed) if (!named.has(blobIn(object))) await bucket.erase(object.key, signal);
    return 2;
  }

  /** Whether the head was certainly written with the key's only archive, so that the head need not be read. */
  function isNamed([only, ...others]: readonly S3Object[], { sizeBytes, at }: S3Object): boolean {
    if (only === undefined || others.length > 0 || !surelyNames(sizeBytes)) return false;
    return Math.abs(Date.parse(at) - Date.parse(only.at)) < COMMIT_MS;
  }

  function blobIn({ key }: S3Object): string {
    return key.slice(key.lastIndexOf("/") + 1);
  }

  async function eraseUnnamed(isOld: (at: string) => boolean, signal: AbortSignal): Promise<void> {
    let reads = 0;
    for await (const { some, last } of groups(signal)) {
      const found = await headsOf(some, signal);
      const taken = await inTurns(some, (group) =>
        eraseOf(group, { head: found.get(layout.head(group.key)), isOld, signal }),
      );
      reads += taken.reduce((sum, count) => sum + count, 0);
      if (reads < MOST_HEADS_READ || last === undefined) continue;
      goesOnBehind = last;
      return;
    }
    goesOnBehind = undefined;
  }

  return async (signal) => {
    // The time is the storage's. If this process used its own clock and that were ahead, it would erase new archives.
    const now = await bucket.now(signal);
    const isOld = (at: string): boolean => now - Date.parse(at) > LEFTOVER_MS;
    // Only these two prefixes: other programs may have uploads in the bucket.
    for (const prefix of [layout.archives, layout.contexts]) await abortUploads(prefix, isOld, signal);
    await eraseUnnamed(isOld, signal);
    for (const { key, at } of await bucket.list(layout.contexts, signal)) {
      if (layout.contextOf(key)?.isReceived === true && isOld(at)) await bucket.erase(key, signal);
    }
  };
}
