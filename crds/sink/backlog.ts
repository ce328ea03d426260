import { randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, readFile, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../client/clock.ts";

/** Names sort by age, also those of earlier processes. */
const NAME = /^\d{15}-\d{8}-[0-9a-f]{8}[.]ndjson$/;
const OWN_ONLY = 0o600;
const MOST_SEGMENT_BYTES = 512 * 1024;
const MOST_MEMORY_BYTES = 8 * 1024 * 1024;

/** Events that are sent in one request. */
export interface Segment {
  /** One event each. */
  readonly lines: readonly string[];
  /** The segment has the events up to this one, counted from the start of the process. */
  readonly through: number;
}

/** Events that wait to be sent, in files, oldest first. */
export interface Backlog {
  /**
   * Adds events, one a line. If no file can be written, they wait in memory. If there is no room, the oldest ones go.
   */
  append(lines: readonly string[]): Promise<void>;
  /** The oldest segment, to which nothing is added any more; the same one until it is removed; undefined if empty. */
  oldest(): Promise<Segment | undefined>;
  /** Removes the segment that {@link oldest} returned. */
  removeOldest(): Promise<void>;
  /** Of all events. */
  bytes(): number;
}

interface Stored {
  /** The name of the file; undefined in memory. */
  readonly name: string | undefined;
  /** In memory. */
  readonly lines: string[];
  bytes: number;
  count: number;
  through: number;
}

/**
 * Opens the backlog in a folder, with what an earlier process has left there. An event survives the end of the process,
 * and not that of the node: nothing waits for the disk.
 *
 * @param options.most events of a segment
 * @param options.mostBytes of all events
 * @param options.onLost called with the number of events that there was no room for
 * @throws Error if the folder cannot be written to
 */
export async function openBacklog(
  folder: string,
  options: {
    most: number;
    mostBytes: number;
    onLost: (events: number) => void;
    onFailure: (error: unknown) => void;
  },
): Promise<Backlog> {
  const { most, mostBytes, onLost, onFailure } = options;
  const segments: Stored[] = await openFolder(folder);
  const term = randomBytes(4).toString("hex");
  let made = 0;
  let added = 0;
  /** Of the last segment, while events are added to it. */
  let file: FileHandle | undefined;
  /** The segment that is being sent. */
  let taken: Stored | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  let memoryBytes = 0;

  /** One operation after another. */
  function next<T>(work: () => Promise<T>): Promise<T> {
    const done = turn.then(work);
    turn = done.catch(() => undefined);
    return done;
  }

  async function closeLast(): Promise<void> {
    const closing = file;
    file = undefined;
    await closing?.close().catch(onFailure);
  }

  function push(name: string | undefined): Stored {
    const segment = { name, lines: [], bytes: 0, count: 0, through: added };
    segments.push(segment);
    return segment;
  }

  async function writeTo(text: string): Promise<Stored> {
    let last = segments.at(-1);
    if (file === undefined || last === undefined) {
      made += 1;
      const name = [String(systemClock.now()).padStart(15, "0"), String(made).padStart(8, "0"), term].join("-");
      file = await open(join(folder, `${name}.ndjson`), "ax", OWN_ONLY);
      last = push(`${name}.ndjson`);
    }
    await file.appendFile(text);
    return last;
  }

  async function keepInMemory(lines: readonly string[]): Promise<Stored> {
    // A failed write may have left the beginning of a line, to which nothing must be added.
    await closeLast();
    const segment = push(undefined);
    segment.lines.push(...lines);
    return segment;
  }

  /** Drops the oldest segments that are not being sent, until there is room. */
  async function makeRoom(size: number, { isMemory }: { isMemory: boolean }): Promise<void> {
    const limit = isMemory ? Math.min(mostBytes, MOST_MEMORY_BYTES) : mostBytes;
    while ((isMemory ? memoryBytes : bytes) + size > limit) {
      const oldest = segments.find((one) => one !== taken && (!isMemory || one.name === undefined));
      if (oldest === undefined) return;
      if (oldest === segments.at(-1)) await closeLast();
      const lost = oldest.count || (await read(oldest).catch(() => ({ lines: [""] }))).lines.length;
      onLost(lost);
      await remove(oldest).catch(onFailure);
    }
  }

  async function read(segment: Stored): Promise<Segment> {
    const { name, through } = segment;
    if (name === undefined) return { lines: segment.lines, through };
    const text = await readFile(join(folder, name), "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      return "";
    });
    // What a killed process has left behind the last newline is no event.
    return { lines: text.split("\n").slice(0, -1), through };
  }

  async function remove(segment: Stored): Promise<void> {
    segments.splice(segments.indexOf(segment), 1);
    bytes -= segment.bytes;
    if (segment.name === undefined) memoryBytes -= segment.bytes;
    else {
      await unlink(join(folder, segment.name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
    }
  }

  async function add(lines: readonly string[]): Promise<void> {
    const text = lines.map((line) => `${line}\n`).join("");
    const size = Buffer.byteLength(text);
    await makeRoom(size, { isMemory: false });
    let segment: Stored;
    try {
      segment = await writeTo(text);
    } catch (error) {
      onFailure(error);
      await makeRoom(size, { isMemory: true });
      segment = await keepInMemory(lines);
      memoryBytes += size;
    }
    bytes += size;
    added += lines.length;
    segment.bytes += size;
    segment.count += lines.length;
    segment.through = added;
  }

  return {
    append: (lines) =>
      next(async () => {
        for (let at = 0; at < lines.length; ) {
          const { count = 0, bytes: size = 0 } = (file && segments.at(-1)) ?? {};
          if (count >= most || size >= MOST_SEGMENT_BYTES) await closeLast();
          const room = file === undefined ? most : most - count;
          await add(lines.slice(at, at + room));
          at += room;
        }
      }),

    oldest: () =>
      next(async () => {
        taken ??= segments[0];
        if (taken === undefined) return undefined;
        if (taken === segments.at(-1)) await closeLast();
        return await read(taken);
      }),

    removeOldest: () =>
      next(async () => {
        const sent = taken;
        taken = undefined;
        if (sent !== undefined) await remove(sent);
      }),

    bytes: () => bytes,
  };
}

/** @returns what an earlier process has left */
async function openFolder(folder: string): Promise<Stored[]> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const probe = join(folder, ".probe");
    await (await open(probe, "w", OWN_ONLY)).close();
    await unlink(probe);
    const names = (await readdir(folder)).filter((name) => NAME.test(name)).sort();
    return await Promise.all(
      names.map(async (name) => {
        const { size } = await stat(join(folder, name));
        return { name, lines: [], bytes: size, count: 0, through: 0 };
      }),
    );
  } catch (cause) {
    const says = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`TENANCY_SINK_FOLDER: ${says}; name a folder that the program may write to`, { cause });
  }
}
