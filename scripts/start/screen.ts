import { closeSync, openSync, writeSync } from "node:fs";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { type DescribedEntry, describeEntry, type LogEntry, parseEntry } from "./describe-entry.ts";

/** Where `npm start` prints: what it does itself, and the logs of the programs that it started. */
export interface Screen {
  /** Prints text about the start. */
  say(text: string): void;
  /** Prints why the start failed, or what a person has to do. */
  fail(text: string): void;
  /** Prints what happened to a program. */
  warn(text: string): void;
  /** Takes one line that a program wrote. */
  line(program: string, line: string): void;
  /** Prints the repeats that were not printed yet. */
  close(): void;
}

interface Output {
  write(text: string): unknown;
  hasColors?(): boolean;
}

const LEVELS: Readonly<Record<number, { name: string; colour: string }>> = {
  20: { name: "DEBUG", colour: "2" },
  30: { name: "INFO", colour: "36" },
  40: { name: "WARN", colour: "33" },
  50: { name: "ERROR", colour: "31" },
};
/** The lowest level of a problem; what is below it happened once each time. */
const PROBLEM = 40;
const OWN = "start";
/** A problem that repeats is printed again with its count after a minute, then after twice as long each time. */
const FIRST_SUMMARY_MS = 60_000;
const LAST_SUMMARY_MS = 3_600_000;

/** A problem that was printed, and has repeated since or may. */
interface Repeated {
  print(times: string): void;
  readonly firstAt: number;
  lastAt: number;
  times: number;
  printedTimes: number;
  summaryMs: number;
  cancel(): void;
}

/**
 * Prints the entries of logs as one line each, in words, and a repeated problem once with a count. With `json` it
 * prints JSON only, and the file gets JSON always.
 *
 * @param options.file appended to
 * @throws Error if the file cannot be opened
 */
export function createScreen(options: {
  /** Places in the code are shown relative to it. */
  root: string;
  json?: boolean;
  file?: string | undefined;
  out?: Output;
  err?: Output;
  clock?: Clock;
}): Screen {
  const { root, json = false, file, out = process.stdout, err = process.stderr, clock = systemClock } = options;
  const isColoured = out.hasColors?.() ?? false;
  const descriptor = file === undefined ? undefined : openSync(file, "a");
  const repeats = new Map<string, Repeated>();

  function record(line: string): void {
    if (descriptor !== undefined) writeSync(descriptor, `${line}\n`);
    if (json) out.write(`${line}\n`);
  }

  function own(level: number, text: string): LogEntry {
    const entry = { level, time: new Date(clock.now()).toISOString(), program: OWN, msg: text.trim() };
    record(JSON.stringify(entry));
    return entry;
  }

  function show(entry: LogEntry): void {
    const described = describeEntry(entry, { root });
    const key = keyOf(entry, described);
    const print = (times: string) => out.write(`${rendered(entry, { described, times, isColoured })}\n`);
    if (Number(entry.level) < PROBLEM) {
      print("");
      return;
    }
    const now = clock.now();
    const known = repeats.get(key);
    if (known === undefined) {
      print("");
      const repeated = { print, firstAt: now, lastAt: now, times: 1, printedTimes: 1, summaryMs: FIRST_SUMMARY_MS };
      repeats.set(key, { ...repeated, cancel: clock.after(FIRST_SUMMARY_MS, () => summarise(key)) });
      return;
    }
    known.times += 1;
    known.lastAt = now;
    known.print = print;
  }

  /** One that has not repeated since is forgotten, and printed at once when it comes back. */
  function summarise(key: string): void {
    const known = repeats.get(key);
    if (known === undefined) return;
    if (known.times === known.printedTimes) {
      repeats.delete(key);
      return;
    }
    printCount(known);
    known.summaryMs = Math.min(known.summaryMs * 2, LAST_SUMMARY_MS);
    known.cancel = clock.after(known.summaryMs, () => summarise(key));
  }

  return {
    say(text) {
      if (text.trim() !== "") own(30, text);
      if (!json) out.write(`${text}\n`);
    },
    fail(text) {
      own(50, text);
      if (!json) err.write(`${text}\n`);
    },
    warn(text) {
      const entry = own(40, text);
      if (!json) show(entry);
    },
    line(program, line) {
      const entry = parseEntry(line);
      if (entry !== undefined) {
        record(line);
        if (!json) show(entry);
      } else if (line.trim() !== "") {
        // What a runtime prints itself, such as the stack of a crash.
        record(JSON.stringify({ level: 50, time: new Date(clock.now()).toISOString(), program, msg: line }));
        if (!json) err.write(`${line}\n`);
      }
    },
    close() {
      for (const known of repeats.values()) {
        known.cancel();
        if (known.times > known.printedTimes) printCount(known);
      }
      repeats.clear();
      if (descriptor !== undefined) closeSync(descriptor);
    },
  };
}

function printCount(known: Repeated): void {
  known.print(` (${known.times} times in ${durationWords(known.lastAt - known.firstAt)})`);
  known.printedTimes = known.times;
}

/** Equal for entries that report the same problem again. */
function keyOf(entry: LogEntry, { who, what }: DescribedEntry): string {
  return JSON.stringify([entry.program, entry.level, who, what.replaceAll(/\d+(\.\d+)?(?= ?(ms|s|min)\b)/g, "#")]);
}

function rendered(
  entry: LogEntry,
  { described, times, isColoured }: { described: DescribedEntry; times: string; isColoured: boolean },
): string {
  const paint = (colour: string, text: string) => (isColoured ? `\x1b[${colour}m${text}\x1b[0m` : text);
  const { level, program } = entry;
  const { name, colour } = LEVELS[Number(level)] ?? { name: "ERROR", colour: "31" };
  const { who, what, details } = described;
  const from = program === OWN ? "" : `${String(program).padEnd("operator".length)} `;
  const time = paint("2", timeOf(entry.time));
  const subject = who === undefined ? "" : `${paint("1", who)}: `;
  const more = details === "" ? "" : paint("2", ` (${details})`);
  return `${time} ${paint(colour, name.padEnd(5))} ${from}${subject}${what}${more}${times}`;
}

/** The time of day, as the machine's clock shows it. */
function timeOf(time: unknown): string {
  const at = new Date(String(time));
  return Number.isNaN(at.getTime()) ? "--:--:--" : at.toTimeString().slice(0, 8);
}

function durationWords(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
