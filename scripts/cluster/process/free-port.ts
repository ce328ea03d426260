import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { createServer } from "node:net";

// Below the range that Linux gives to outgoing connections (32768 and up), so that a port stays ours while its server
// is being restarted; above the fixed ports of the full clusters.
const FIRST = 23_000;
const LAST = 32_700;

/**
 * Returns a TCP port on 127.0.0.1 that nothing listens on. No other call gets it while this process runs, because this
 * process keeps the UDP port of the same number.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    const port = randomInt(FIRST, LAST);
    if ((await isPortFree(port)) && (await reserve(port))) return port;
  }
  throw new Error(`Cannot find a free TCP port between ${FIRST} and ${LAST}: 50 random ones are taken`);
}

function reserve(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = createSocket("udp4");
    // Called before the bind, since Deno ignores it later.
    socket.unref();
    socket.once("error", (error: NodeJS.ErrnoException) => {
      socket.close();
      if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(false);
      else reject(error);
    });
    socket.bind({ port, address: "127.0.0.1", exclusive: true }, () => resolve(true));
  });
}

/** Whether a TCP port can be listened on. */
export function isPortFree(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(false);
      else reject(error);
    });
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
