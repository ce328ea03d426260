import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";

/** Reads a log that grows. */
export interface LogReader {
  /** The whole lines that came since the last call. */
  next(): string;
}

/** Begins at the file's start; a file that is not there yet has no lines. */
export function createLogReader(path: string): LogReader {
  let position = 0;
  return {
    next() {
      if (!existsSync(path)) return "";
      const file = openSync(path, "r");
      try {
        const buffer = Buffer.alloc(Math.max(0, fstatSync(file).size - position));
        const read = readSync(file, buffer, 0, buffer.length, position);
        const end = buffer.subarray(0, read).lastIndexOf("\n") + 1;
        position += end;
        return buffer.toString("utf8", 0, end);
      } finally {
        closeSync(file);
      }
    },
  };
}
