import { randomInt } from "node:crypto";
import { createServer } from "node:net";

// Below the range that Linux gives to outgoing connections (32768 and up), so that a port stays ours while its server
// is being restarted; above the fixed ports of the full clusters.
const FIRST = 23_000;
const LAST = 32_700;

/** Returns a TCP port on 127.0.0.1 that nothing listens on, picked at random so that several callers do not meet. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    const port = randomInt(FIRST, LAST);
    if (await isPortFree(port)) return port;
  }
  throw new Error(`Cannot find a free TCP port between ${FIRST} and ${LAST}: 50 random ones are taken`);
}

/** Tells whether a TCP port can be listened on. */
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
