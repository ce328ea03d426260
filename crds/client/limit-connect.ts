import type { ClientRequest } from "node:http";

/**
 * Ends a request that gets no connection within the limit. Its own timeout begins only with a connection, and nothing
 * answers at the address of a machine or pod that is gone.
 */
export function limitConnect(request: ClientRequest, limitMs: number): void {
  let timer: NodeJS.Timeout | undefined;
  request.on("socket", (socket) => {
    if (!socket.connecting) return;
    timer = setTimeout(() => request.destroy(new Error(`no connection after ${limitMs / 1000} s`)), limitMs);
    socket.once("connect", () => clearTimeout(timer));
  });
  request.on("close", () => clearTimeout(timer));
}
