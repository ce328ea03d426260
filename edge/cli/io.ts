import type { Readable, Writable } from "node:stream";
import { CommandError } from "./command.ts";

export interface Input extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
}

export interface Output extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

/** What the program reads, writes and is given by its environment. */
export interface Io {
  readonly stdin: Input;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Writes, and waits until the reader has room for more. @throws the stream's error */
export function writeTo(stream: Writable, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()));
  });
}

/** Reads all of standard input. @throws CommandError if it is longer than `mostBytes` */
export async function readAll(stdin: Readable, { mostBytes }: { mostBytes: number }): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stdin) {
    const piece = Buffer.from(part as Uint8Array);
    parts.push(piece);
    bytes += piece.length;
    if (bytes > mostBytes)
      throw new CommandError(`Cannot read standard input: it has more than ${mostBytes} bytes`, { exitCode: 1 });
  }
  return Buffer.concat(parts);
}

/** A text without the end of its last line, as `echo` writes it. */
export function withoutLastEnd(text: string): string {
  return text.replace(/\r?\n$/, "");
}
