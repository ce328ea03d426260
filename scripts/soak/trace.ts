import { closeSync, openSync, rmSync, writeSync } from "node:fs";

/** All that happened, in the order in which the run learnt of it. */
export interface Trace {
  readonly path: string;
  /** Notes an event; `about` are names and uids that it can be found by. */
  note(what: string, about: readonly string[], details?: Readonly<Record<string, unknown>>): void;
  /** The last events about any of these. */
  last(about: readonly string[], most: number): string[];
  /** Closes the file; removes it unless it is to be kept. */
  close(keep: boolean): void;
}

/** How far back `last` looks. */
const KEPT = 20_000;

/** Starts a trace in a file, one JSON document a line. */
export function startTrace(path: string): Trace {
  const file = openSync(path, "w", 0o600);
  const startedAt = performance.now();
  let recent: { line: string; about: ReadonlySet<string> }[] = [];
  return {
    path,
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
      if (!keep) rmSync(path, { force: true });
    },
  };
}
