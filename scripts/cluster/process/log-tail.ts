import { closeSync, fstatSync, openSync, readSync } from "node:fs";

const TAIL_BYTES = 16_384;

/**
 * Returns the last lines of a log file with its path above them, to be shown in an error message.
 *
 * @param lines how many lines at most
 */
export function logTail(path: string, lines = 15): string {
  const text = readEnd(path);
  if (text === undefined) return `(no log at ${path})`;
  const end = text.trimEnd().split("\n").slice(-lines);
  return [`the end of ${path}:`, ...end.map((line) => `  ${line.slice(0, 500)}`)].join("\n");
}

function readEnd(path: string): string | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const size = fstatSync(file).size;
    const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
    readSync(file, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString("utf8");
  } finally {
    closeSync(file);
  }
}
