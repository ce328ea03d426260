import { fileURLToPath } from "node:url";
import type { Exec } from "../../../../crds/client/exec/exec.ts";
import { cachedGoProgram } from "../../../../scripts/cluster/sources/cached-go-program.ts";
import { localExec } from "../../snapshots/local-exec.ts";

/**
 * Creates an exec that runs the program `inside` on this machine. Each exec has a daemon of its own, which ends with
 * it: the name of the daemon's socket belongs to the network namespace.
 */
export async function insideExec(): Promise<Exec> {
  const program = await cachedGoProgram({
    ...{ what: "the program inside", program: "inside", cache: "inside" },
    moduleFolder: fileURLToPath(new URL("../../../../edge/inside/program", import.meta.url)),
    // Its own module: it needs no other, so no proxy is asked.
    ...{ firstModule: "tenancy.dev/inside", reachMs: 30_000, packages: ["."], minimumGo: "1.24" },
    duration: "20 seconds on two cores",
  });
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  // A login shell would run what this machine's user has in their profile.
  const unshare = [
    "/usr/bin/env",
    "HOME=/nonexistent",
    "/usr/bin/unshare",
    ...user,
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--",
  ];
  return (options) => localExec({ ...options, command: [...unshare, program, "connect"] });
}
