import { randomBytes } from "node:crypto";
import type { BuildContexts } from "../../builds/build-contexts.ts";
import { isObjectName } from "../../names.ts";
import type { LimitCall } from "../limit-calls.ts";
import { StoreError } from "../snapshot-store.ts";
import { openS3Archive } from "./s3-archive-reader.ts";
import type { S3Bucket, S3Object } from "./s3-bucket.ts";
import type { S3Layout } from "./s3-layout.ts";
import type { S3Uploads } from "./s3-uploads.ts";

const SHA256 = /^[0-9a-f]{64}$/;
/** A younger context may belong to an upload that a workload is about to name. */
const YOUNG_MS = 2 * 60_000;
const ERASE_LIMIT_MS = 5000;

/**
 * Build contexts as objects `contexts/<workload>/<sha256>`. The name of an incomplete upload begins with a dot, and it
 * is never read.
 */
export function createS3Contexts(options: {
  bucket: S3Bucket;
  layout: S3Layout;
  uploads: S3Uploads;
  limited: LimitCall;
}): BuildContexts {
  const { bucket, layout, uploads, limited } = options;

  function folderOf(workload: string): string {
    if (isObjectName(workload)) return `${layout.contexts}${workload}/`;
    throw new TypeError(`Cannot keep a build context of "${workload}": that is not a valid name of a workload`);
  }

  async function listed(folder: string, signal: AbortSignal): Promise<(S3Object & { readonly isReceived: boolean })[]> {
    const objects = await bucket.list(folder, signal);
    return objects.flatMap((object) => {
      const context = layout.contextOf(object.key);
      return context === undefined ? [] : [{ ...object, ...context }];
    });
  }

  return {
    async put(workload, content, call) {
      const folder = folderOf(workload);
      return await limited(call, async (signal) => {
        const received = `${folder}.${randomBytes(16).toString("hex")}`;
        try {
          const kept = await uploads.write(received, atMost(content, call.mostBytes), signal);
          const other = await call.confirm();
          const isThere = await uploads.copy(folder + kept.sha256, { at: received, sizeBytes: kept.sizeBytes }, signal);
          if (!isThere) throw new StoreError("the upload was deleted in the meantime", { isTransient: true });
          const stays = new Set([kept.sha256, other].map((sha256) => `${folder}${sha256}`));
          const found = await listed(folder, signal);
          // The time is that of the storage's own clock.
          const now = Math.max(...found.map(({ at }) => Date.parse(at)));
          for (const { key, at, isReceived } of found) {
            const isYoung = now - Date.parse(at) < YOUNG_MS;
            if (!stays.has(key) && !isYoung && !isReceived) await bucket.erase(key, signal);
          }
          return kept;
        } finally {
          // If this fails, the upload is erased later as a leftover.
          await bucket.erase(received, AbortSignal.timeout(ERASE_LIMIT_MS)).catch(() => undefined);
        }
      });
    },

    async open(workload, sha256, call) {
      const at = folderOf(workload) + sha256;
      if (!SHA256.test(sha256)) return undefined;
      const opened = await openS3Archive({ bucket, limited, call }, async (signal) => {
        const found = (await bucket.list(at, signal)).find(({ key }) => key === at);
        return found && { at, metadata: { sha256, sizeBytes: found.sizeBytes } };
      });
      return opened && { sizeBytes: opened.metadata.sizeBytes, content: opened.content, close: opened.close };
    },

    async erase(workload, call) {
      const folder = folderOf(workload);
      await limited(call, async (signal) => {
        for (const { key } of await listed(folder, signal)) await bucket.erase(key, signal);
      });
    },
  };
}

async function* atMost(content: AsyncIterable<Uint8Array>, mostBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of content) {
    bytes += piece.length;
    if (bytes > mostBytes) {
      throw new StoreError(`the build context has more than ${mostBytes} bytes`, { isTransient: false });
    }
    yield piece;
  }
}
