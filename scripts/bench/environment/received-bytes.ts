import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Bytes that programs of this machine have received over TCP connections that are open, by connection. */
export type ReceivedBytes = readonly { readonly pid: number; readonly connection: string; readonly bytes: number }[];

/** Reads it from the kernel; undefined without `ss`, which is in Debian's package iproute2. */
export async function receivedBytes(options: { fromPort: number }): Promise<ReceivedBytes | undefined> {
  const filter = ["state", "established", `dport = :${options.fromPort}`];
  try {
    const { stdout } = await promisify(execFile)("ss", ["-Htnpi", ...filter], { maxBuffer: 2 ** 26 });
    return parseSockets(stdout);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Reads what `ss -Htnpi` prints: a line of addresses and owner, then one of figures. */
export function parseSockets(text: string): ReceivedBytes {
  return text.split(/\n(?=\S)/).flatMap((socket) => {
    const [, connection, pid] = /(\S+:\d+ +\S+:\d+) +users:\(\("[^"]*",pid=(\d+)/.exec(socket) ?? [];
    if (connection === undefined) return [];
    return [{ pid: Number(pid), connection, bytes: Number(/ bytes_received:(\d+)/.exec(socket)?.[1] ?? 0) }];
  });
}

/** Bytes that a process received between two reads, without connections that ended in between. */
export function receivedBetween(before: ReceivedBytes, after: ReceivedBytes, pid: number): number {
  const known = new Map(before.map(({ connection, bytes }) => [connection, bytes]));
  return after
    .filter((one) => one.pid === pid)
    .reduce((sum, { connection, bytes }) => sum + bytes - (known.get(connection) ?? 0), 0);
}
