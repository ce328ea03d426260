/** Longer than any object: etcd takes 1.5 MiB, an event wraps one of them. */
const maxLineBytes = 64 * 1024 * 1024;

const newline = 0x0a;

export interface LineSplitter {
  /** @throws Error when a line grows past 64 MiB */
  push(chunk: Buffer): void;
}

/**
 * Cuts a stream of bytes into the lines it holds, whatever the chunks; empty lines, and a last one without its newline, are left out.
 *
 * A line is good until `onLine` returns. It is searched for as bytes, to be decoded whole, so a character that two chunks share is
 * safe, and a line of many chunks is copied once.
 */
export function createLineSplitter(onLine: (line: Buffer) => void): LineSplitter {
  let pending: Buffer[] = [];
  let pendingBytes = 0;

  return {
    push(chunk) {
      let start = 0;
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
        if (pending.length === 0) {
          if (end > start) onLine(chunk.subarray(start, end));
        } else {
          pending.push(chunk.subarray(start, end));
          const line = Buffer.concat(pending, pendingBytes + end - start);
          pending = [];
          pendingBytes = 0;
          onLine(line);
        }
        start = end + 1;
      }
      if (start === chunk.length) return;
      pending.push(start === 0 ? chunk : chunk.subarray(start));
      pendingBytes += chunk.length - start;
      if (pendingBytes > maxLineBytes)
        throw new Error(`Cannot split the stream into lines: a line has ${pendingBytes} bytes`);
    },
  };
}
