import { randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, readFile, rename, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, steadyClock, systemClock } from "../client/clock.ts";
import { ownerOf } from "./outgoing-event.ts";

/** Names sort by age, also those of earlier processes. */
const NAME = /^\d{15}-\d{8}-[0-9a-f]{8}[.]ndjson$/;
const OWN_ONLY = 0o600;
const MOST_SEGMENT_BYTES = 512 * 1024;
const MOST_MEMORY_BYTES = 8 * 1024 * 1024;
/** Until a disk that failed is tried again. */
const DISK_REST_MS = 5000;
const MOST_READS = 5;
/** An owner with less of all bytes does not pay for the rewriting of files that it shares. */
const GREEDY_SHARE = 1 / 8;

/** Some events that wait to be sent. */
export interface Segment {
  /** How many times they could not be sent. */
  tries: number;
  /** They are not sent before, by the steady clock. */
  retryAt: number;
}

/** Events that wait to be sent, in files. */
export interface Backlog {
  /**
   * Adds events, one a line. If no file can be written, they wait in memory. If there is no room, the oldest ones go:
   * those of the owner ({@link ownerOf}) that has the most, if it has an eighth of all. What is taken stays.
   */
  append(lines: readonly string[]): Promise<void>;
  /**
   * Takes the oldest events whose time has come; undefined if there are none. Nothing is added to them any more.
   *
   * @param options.withNewest whether also those may be taken to which events are still added
   */
  take(options: { withNewest: boolean }): Promise<{ segment: Segment; lines: readonly string[] } | undefined>;
  /** Puts back what is left of taken events; if nothing is left, they are removed. */
  putBack(segment: Segment, left: readonly string[]): Promise<void>;
  /** Of all events. */
  bytes(): number;
  /** Closes the file to which events are added. What is in files stays there. */
  close(): Promise<void>;
}

interface Stored extends Segment {
  /** The name of the file; undefined in memory. */
  readonly name: string | undefined;
  /** In memory. */
  lines: string[];
  bytes: number;
  /** 0 for a file that an earlier process has left. */
  count: number;
  /** Bytes by owner; none of a file that an earlier process has left. */
  shares: ReadonlyMap<string, number>;
  isTaken: boolean;
}

const fresh = { bytes: 0, count: 0, shares: new Map<string, number>(), isTaken: false, tries: 0, retryAt: 0 };

/**
 * Opens the backlog in a folder, with what an earlier process has left there. An event survives the end of the process,
 * and not that of the node: nothing waits for the disk.
 *
 * @param options.most events of a segment
 * @param options.mostBytes of all events
 * @param options.onLost called with the number of events that there was no room for, or that cannot be read
 * @throws Error if the folder cannot be written to
 */
export async function openBacklog(
  folder: string,
  options: {
    most: number;
    mostBytes: number;
    onLost: (events: number) => void;
    onFailure: (error: unknown) => void;
    steady?: Clock | undefined;
  },
): Promise<Backlog> {
  const { most, mostBytes, onLost, onFailure, steady = steadyClock } = options;
  /** Oldest first. */
  const segments: Stored[] = await openFolder(folder);
  const term = randomBytes(4).toString("hex");
  let made = 0;
  /** The segment to whose file events are added. */
  let newest: { readonly segment: Stored; readonly file: FileHandle } | undefined;
  let diskAt = 0;
  let bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  let memoryBytes = 0;
  /** Bytes of all segments, by owner. */
  const shares = new Map<string, number>();
  let turn: Promise<unknown> = Promise.resolve();

  /** One operation after another. */
  function next<T>(work: () => Promise<T>): Promise<T> {
    const done = turn.then(work);
    turn = done.catch(() => undefined);
    return done;
  }

  function push(name: string | undefined): Stored {
    const segment = { ...fresh, name, lines: [] };
    segments.push(segment);
    return segment;
  }

  async function closeNewest(): Promise<void> {
    const closing = newest;
    newest = undefined;
    await closing?.file.close().catch(onFailure);
  }

  async function openNewest(): Promise<{ segment: Stored; file: FileHandle }> {
    made += 1;
    const name = [String(systemClock.now()).padStart(15, "0"), String(made).padStart(8, "0"), term].join("-");
    const file = await open(join(folder, `${name}.ndjson`), "ax", OWN_ONLY);
    newest = { segment: push(`${name}.ndjson`), file };
    return newest;
  }

  async function writeTo(text: string): Promise<Stored> {
    const { segment, file } = newest ?? (await openNewest());
    await file.appendFile(text);
    return segment;
  }

  /** The segment in memory to which events are added while the disk fails. */
  async function memorySegment(): Promise<Stored> {
    const failed = newest?.segment;
    // A failed write may have left the beginning of a line, to which nothing must be added.
    await closeNewest();
    if (failed?.count === 0) await remove(failed).catch(onFailure);
    const last = segments.at(-1);
    const isOpen = last !== undefined && last.name === undefined && !last.isTaken && last.count < most;
    return isOpen ? last : push(undefined);
  }

  /** Drops the oldest events that are not being sent, until there is room. */
  async function makeRoom(size: number, { isMemory }: { isMemory: boolean }): Promise<void> {
    const limit = isMemory ? Math.min(mostBytes, MOST_MEMORY_BYTES) : mostBytes;
    while ((isMemory ? memoryBytes : bytes) + size > limit) {
      const mayGo = (one: Stored) => !one.isTaken && (!isMemory || one.name === undefined);
      const owner = greediest();
      const shared = segments.find((one) => mayGo(one) && owner !== undefined && one.shares.has(owner));
      if (owner !== undefined && shared !== undefined && (await dropOf(owner, shared))) continue;
      const oldest = shared ?? segments.find(mayGo);
      if (oldest === undefined) return;
      onLost(oldest.count || (await read(oldest).catch(() => [""])).length);
      await remove(oldest).catch(onFailure);
    }
  }

  function greediest(): string | undefined {
    const [owner, most] = [...shares].reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
    return most > bytes * GREEDY_SHARE ? owner : undefined;
  }

  /** @returns whether events of others are left; if not, or if the file cannot be written, nothing is dropped */
  async function dropOf(owner: string, segment: Stored): Promise<boolean> {
    if (segment.shares.size === 1) return false;
    try {
      const lines = await read(segment);
      const left = lines.filter((line) => ownerOf(line) !== owner);
      if (left.length === 0 || left.length === lines.length) return false;
      if (segment === newest?.segment) await closeNewest();
      await rewrite(segment, left);
      onLost(lines.length - left.length);
      return true;
    } catch (error) {
      onFailure(error);
      return false;
    }
  }

  async function rewrite(segment: Stored, left: readonly string[]): Promise<void> {
    const text = textOf(left);
    if (segment.name === undefined) segment.lines = [...left];
    else {
      const path = join(folder, segment.name);
      await writeFile(`${path}.partial`, text, { mode: OWN_ONLY });
      await rename(`${path}.partial`, path);
    }
    segment.count = left.length;
    share(segment, sharesOf(left));
    resize(segment, Buffer.byteLength(text));
  }

  function share(segment: Stored, next: ReadonlyMap<string, number>): void {
    for (const owner of new Set([...segment.shares.keys(), ...next.keys()])) {
      const size = (shares.get(owner) ?? 0) + (next.get(owner) ?? 0) - (segment.shares.get(owner) ?? 0);
      if (size > 0) shares.set(owner, size);
      else shares.delete(owner);
    }
    segment.shares = next;
  }

  async function read({ name, lines }: Stored): Promise<readonly string[]> {
    if (name === undefined) return lines;
    const text = await readFile(join(folder, name), "utf8");
    // What a killed process has left behind the last newline is no event.
    return text.split("\n").slice(0, -1);
  }

  async function remove(segment: Stored): Promise<void> {
    if (segment === newest?.segment) await closeNewest();
    segments.splice(segments.indexOf(segment), 1);
    share(segment, new Map());
    resize(segment, 0);
    if (segment.name !== undefined) await unlinkIfThere(join(folder, segment.name));
  }

  function resize(segment: Stored, size: number): void {
    bytes += size - segment.bytes;
    if (segment.name === undefined) memoryBytes += size - segment.bytes;
    segment.bytes = size;
  }

  async function add(lines: readonly string[]): Promise<void> {
    const text = textOf(lines);
    const size = Buffer.byteLength(text);
    await makeRoom(size, { isMemory: false });
    let segment: Stored | undefined;
    if (steady.now() >= diskAt) {
      segment = await writeTo(text).catch((error: unknown) => {
        onFailure(error);
        diskAt = steady.now() + DISK_REST_MS;
        return undefined;
      });
    }
    if (segment === undefined) {
      await makeRoom(size, { isMemory: true });
      segment = await memorySegment();
      segment.lines.push(...lines);
    }
    segment.count += lines.length;
    share(segment, sharesOf(lines, segment.shares));
    resize(segment, segment.bytes + size);
  }

  /** @returns undefined if the file cannot be read now, or is gone */
  async function readOrGiveUp(segment: Stored): Promise<readonly string[] | undefined> {
    try {
      return await read(segment);
    } catch (error) {
      onFailure(error);
      segment.tries += 1;
      segment.retryAt = steady.now() + DISK_REST_MS;
      if (isMissing(error) || segment.tries >= MOST_READS) {
        onLost(segment.count || 1);
        await remove(segment).catch(onFailure);
      }
      return undefined;
    }
  }

  return {
    append: (lines) =>
      next(async () => {
        for (let at = 0; at < lines.length; ) {
          const { count = 0, bytes: size = 0 } = newest?.segment ?? {};
          if (count >= most || size >= MOST_SEGMENT_BYTES) await closeNewest();
          const room = most - (newest?.segment.count ?? 0);
          await add(lines.slice(at, at + room));
          at += room;
        }
      }),

    take: ({ withNewest }) =>
      next(async () => {
        const now = steady.now();
        const isReady = (one: Stored) => !one.isTaken && one.retryAt <= now && (withNewest || one !== newest?.segment);
        for (let segment = segments.find(isReady); segment !== undefined; segment = segments.find(isReady)) {
          if (segment === newest?.segment) await closeNewest();
          const lines = await readOrGiveUp(segment);
          if (lines === undefined) continue;
          segment.isTaken = true;
          segment.count = lines.length;
          return { segment, lines };
        }
        return undefined;
      }),

    putBack: (given, left) =>
      next(async () => {
        const segment = segments.find((one) => one === given);
        if (segment === undefined) return;
        if (left.length === 0) {
          await remove(segment);
          return;
        }
        segment.isTaken = false;
        if (left.length === segment.count) return;
        await rewrite(segment, left);
      }),

    bytes: () => bytes,
    close: () => next(closeNewest),
  };
}

/** Bytes of lines by owner, on top of others. */
function sharesOf(lines: readonly string[], before: ReadonlyMap<string, number> = new Map()): Map<string, number> {
  const sums = new Map(before);
  for (const line of lines) {
    const owner = ownerOf(line);
    sums.set(owner, (sums.get(owner) ?? 0) + Buffer.byteLength(line) + 1);
  }
  return sums;
}

function textOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

/** @returns what an earlier process has left */
async function openFolder(folder: string): Promise<Stored[]> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const probe = join(folder, ".probe");
    await writeFile(probe, "", { mode: OWN_ONLY });
    await unlink(probe);
    const left: Stored[] = [];
    for (const name of (await readdir(folder)).sort()) {
      const path = join(folder, name);
      const isPartial = name.endsWith(".ndjson.partial") && NAME.test(name.slice(0, -".partial".length));
      if (!isPartial && !NAME.test(name)) continue;
      const { size } = await stat(path);
      if (isPartial || size === 0) await unlink(path);
      else left.push({ ...fresh, name, lines: [], bytes: size });
    }
    return left;
  } catch (cause) {
    const says = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`TENANCY_SINK_FOLDER: ${says}; name a folder that the program may write to`, { cause });
  }
}

async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
