import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

/** All events, in the order in which the run learned of them. */
export interface Trace {
  /** The folder with the events and the logs of the programs. */
  readonly folder: string;
  /** Records an event. `about` are names and uids to find it by. */
  note(what: string, about: readonly string[], details?: Readonly<Record<string, unknown>>): void;
  /** The last events about any of these names and uids. */
  last(about: readonly string[], most: number): string[];
  /** Closes the file. Removes the folder unless it should be kept. */
  close(keep: boolean): void;
}

/** The number of events that `last` searches. */
const KEPT = 20_000;

/** Starts a trace in the file `events.jsonl` of a folder, with one JSON document per line. */
export function startTrace(folder: string): Trace {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = openSync(join(folder, "events.jsonl"), "w", 0o600);
  const startedAt = performance.now();
  let recent: { line: string; about: ReadonlySet<string> }[] = [];
  return {
    folder,
    note(what, about, details = {}) {
      const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(3));
      const line = JSON.stringify({ seconds, what, about, ...details });
      writeSync(file, `${line}\n`);
      recent.push({ line, about: new Set(about) });
      if (recent.length > 2 * KEPT) recent = recent.slice(-KEPT);
    },
    last: (about, most) =>
      recent
        .filter((event) => about.some((name) => event.about.has(name)))
        .slice(-most)
        .map(({ line }) => line),
    close(keep) {
      closeSync(file);
      if (!keep) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** How often each event happened. */
export interface Counts {
  add(what: string, times?: number): void;
  get(what: string): number;
  /** The counts of events whose name begins with this prefix, by the rest of the name. */
  startingWith(beginning: string): [what: string, times: number][];
}

export function createCounts(): Counts {
  const counts = new Map<string, number>();
  return {
    add: (what, times = 1) => void counts.set(what, (counts.get(what) ?? 0) + times),
    get: (what) => counts.get(what) ?? 0,
    startingWith: (beginning) =>
      [...counts]
        .filter(([what]) => what.startsWith(beginning))
        .map(([what, times]): [string, number] => [what.slice(beginning.length), times])
        .sort(([a], [b]) => a.localeCompare(b)),
  };
}
