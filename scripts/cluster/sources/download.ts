import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, renameSync, rmSync, statSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

export interface DownloadOptions {
  url: string;
  path: string;
  /** Hexadecimal. */
  sha256: string;
  /** Called with the number of bytes that have come so far, as they come. */
  onBytes?: (bytes: number) => void;
  /** How long it may pass without a byte. @default 30000 */
  stallMs?: number;
}

const ATTEMPTS = 4;

/**
 * Fetches a file, going on where an interrupted run stopped, and puts it in place once its checksum is right.
 *
 * @throws Error when it cannot be fetched in four attempts, or its checksum is wrong
 */
export async function download(options: DownloadOptions): Promise<void> {
  const partial = `${options.path}.partial`;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await append(partial, options);
      break;
    } catch (cause) {
      if (attempt < ATTEMPTS && !(cause instanceof RangeError)) continue;
      throw new Error(`Cannot fetch ${options.url}: ${(cause as Error).message}`, { cause });
    }
  }
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(partial)) hash.update(chunk as Buffer);
  const digest = hash.digest("hex");
  if (digest !== options.sha256) {
    rmSync(partial);
    throw new Error(`Cannot use ${options.url}: its SHA-256 is ${digest}, not ${options.sha256}`);
  }
  renameSync(partial, options.path);
}

async function append(partial: string, { url, onBytes, stallMs = 30_000 }: DownloadOptions): Promise<void> {
  const there = statSync(partial, { throwIfNoEntry: false })?.size ?? 0;
  const stalled = new AbortController();
  const arm = (): NodeJS.Timeout =>
    setTimeout(() => stalled.abort(new Error(`no bytes for ${stallMs / 1000} s`)), stallMs);
  let timer = arm();
  try {
    const response = await fetch(url, {
      signal: stalled.signal,
      headers: there > 0 ? { range: `bytes=${there}-` } : {},
    });
    // 416: everything is there already; the checksum says whether it is right.
    if (response.status === 416 && there > 0) return void (await response.body?.cancel());
    if (!response.ok || !response.body) throw new RangeError(`status ${response.status}`);
    const resumed = response.status === 206;
    let bytes = resumed ? there : 0;
    const body = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
    body.on("data", (chunk: Buffer) => {
      clearTimeout(timer);
      timer = arm();
      bytes += chunk.length;
      onBytes?.(bytes);
    });
    await pipeline(body, createWriteStream(partial, { flags: resumed ? "a" : "w" }));
  } finally {
    clearTimeout(timer);
  }
}
