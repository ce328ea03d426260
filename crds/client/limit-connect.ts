import type { ClientRequest } from "node:http";

/**
 * Ends a request that gets no connection in that time. Its own limit of silence begins only when it has one, and where an
 * address is that of a machine or a pod that is gone, nothing answers at all.
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
