import { readdirSync } from "node:fs";
import { pause } from "../process/pause.ts";
import { type ProcessIdentity, readProcessIdentity } from "../process/process-identity.ts";
import { readIfThere } from "../process/read-if-there.ts";
import { stopProcess } from "../process/stop-process.ts";

const GRACE_MS = 5000;

/**
 * Waits until the shims of a containerd have ended, as each does once its container has, and ends those that have not.
 *
 * @param socket path of the socket of their containerd, which is on the command line of each
 */
export async function stopShims(socket: string): Promise<void> {
  const end = performance.now() + GRACE_MS;
  while (findShims(socket).length > 0 && performance.now() < end) await pause(20);
  for (const shim of findShims(socket)) await stopProcess(shim, { name: "containerd-shim", graceMs: 0 });
}

function findShims(socket: string): ProcessIdentity[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((entry) => {
      const identity = readProcessIdentity(Number(entry));
      const words = readIfThere(`/proc/${entry}/cmdline`)?.split("\0") ?? [];
      const isShim = words[0]?.includes("containerd-shim") && words.includes(socket);
      return identity !== undefined && isShim ? [identity] : [];
    });
}
