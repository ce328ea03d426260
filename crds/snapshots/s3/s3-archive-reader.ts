import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ArchiveError } from "../../archive/archive-error.ts";
import { NetworkError } from "../../client/api-error.ts";
import { createDeferred, linkSignals, orAborted } from "../../waits.ts";
import type { LimitCall } from "../limit-calls.ts";
import type { SnapshotMetadata } from "../snapshot-metadata.ts";
import { type ByteRange, type OpenArchive, type StoreCall, StoreError } from "../snapshot-store.ts";
import { isMissing, type S3Bucket } from "./s3-bucket.ts";
import { isAnswer } from "./s3-client.ts";

const MOST_RESUMPTIONS = 5;

type Recorded = Pick<SnapshotMetadata, "sha256" | "sizeBytes">;

interface PartCall extends StoreCall {
  readonly range?: ByteRange | undefined;
}

/**
 * Opens an archive; undefined if it does not exist. The call's time limit includes the reading.
 *
 * @param find finds the archive's object
 */
export function openS3Archive<T extends Recorded>(
  { bucket, limited, call }: { bucket: S3Bucket; limited: LimitCall; call: PartCall },
  find: (signal: AbortSignal) => Promise<{ readonly at: string; readonly metadata: T } | undefined>,
): Promise<(Omit<OpenArchive, "metadata"> & { readonly metadata: T }) | undefined> {
  return new Promise((resolve, reject) => {
    limited(call, async (callSignal) => {
      const reading = linkSignals(callSignal);
      const { signal } = reading;
      try {
        const found = await find(signal);
        if (found === undefined) return resolve(undefined);
        const { at, metadata } = found;
        const { range = { from: 0, to: metadata.sizeBytes } } = call;
        const headers = call.range && rangeHeader(range);
        const first = await bucket.open({ method: "GET", key: at, headers, signal });
        if (isAnswer(first)) {
          // A save may have replaced and erased it since.
          if (!isMissing(first)) bucket.expect(first, "read an archive", 200);
          return resolve(undefined);
        }
        if (call.range !== undefined && first.statusCode !== 206) {
          first.destroy();
          throw new StoreError("Cannot read a part of the archive: the server sends all of it", { isTransient: false });
        }
        const isRead = createDeferred<void>();
        const sha256 = call.range === undefined ? metadata.sha256 : undefined;
        const content = readS3Archive(bucket, { at, first, range, sha256, signal, onEnd: isRead.resolve });
        const close = (): void => reading.abort(new Error("Cannot read the archive: it was closed"));
        resolve({ metadata, content, close });
        await orAborted(isRead.promise, signal).catch(() => first.destroy());
      } finally {
        reading.close();
      }
    }).catch(reject);
  });
}

/**
 * Reads bytes of an archive. If the connection is cut, reads the rest of the same object with another request.
 *
 * @param archive.at the object's name
 * @param archive.first the first response
 * @param archive.sha256 of these bytes, if it is known
 * @throws ArchiveError if they have another SHA-256
 */
async function* readS3Archive(
  bucket: S3Bucket,
  archive: {
    at: string;
    first: IncomingMessage;
    range: ByteRange;
    sha256: string | undefined;
    signal: AbortSignal;
    onEnd: () => void;
  },
): AsyncGenerator<Uint8Array> {
  const { at, first, range, sha256, signal, onEnd } = archive;
  const hash = createHash("sha256");
  const { etag = "" } = first.headers;
  const sizeBytes = range.to - range.from;
  let bytes = 0;
  let response = first;
  try {
    for (let resumptions = 0; ; resumptions += 1) {
      let failure: unknown;
      try {
        for await (const piece of response as AsyncIterable<Buffer>) {
          bytes += piece.length;
          if (bytes > sizeBytes) break;
          hash.update(piece);
          yield piece;
        }
      } catch (error) {
        failure = error;
      }
      signal.throwIfAborted();
      if (bytes >= sizeBytes) break;
      if (resumptions >= MOST_RESUMPTIONS) {
        const why = `only ${bytes} of ${sizeBytes} bytes arrived`;
        throw new NetworkError(`Cannot read the archive: ${why}`, { cause: failure, requestWasSent: true });
      }
      const headers = { ...rangeHeader({ from: range.from + bytes, to: range.to }), "if-match": etag };
      const next = await bucket.open({ method: "GET", key: at, headers, signal });
      if (isAnswer(next)) throw new StoreError(`Cannot resume: ${next.status} ${next.code}`, { isTransient: true });
      if (next.statusCode !== 206) {
        next.destroy();
        throw new StoreError("Cannot resume: the server sends the whole archive again", { isTransient: true });
      }
      response = next;
    }
  } finally {
    if (!response.readableEnded) response.destroy();
    onEnd();
  }
  if (bytes === sizeBytes && (sha256 === undefined || hash.digest("hex") === sha256)) return;
  throw new ArchiveError("Corrupt", "its SHA-256 is not the one that was recorded");
}

function rangeHeader({ from, to }: ByteRange): { range: string } {
  return { range: `bytes=${from}-${to - 1}` };
}
