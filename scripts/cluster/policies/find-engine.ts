import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "../folders.ts";
import { type Log, silent } from "../log.ts";
import { withFileLock } from "../process/file-lock.ts";
import { buildGo } from "../sources/build-go.ts";
import { isProgram } from "../sources/find-on-path.ts";

/** The program that enforces network policies, or why there is none. */
export type PolicyEngine = { readonly path: string } | { readonly because: string };

export interface FindPolicyEngineOptions {
  log?: Log;
  environment?: NodeJS.ProcessEnv;
}

const PROGRAM = "network-policies";
const MODULE_FOLDER = fileURLToPath(new URL("../go-policies", import.meta.url));

/** Longer than the slowest build takes. */
const LOCK_LIMIT_MS = 30 * 60_000;

/**
 * Returns where the program is that enforces network policies: in the folder `TENANCY_K8S_BIN`, in the cache, or built
 * now from Go modules. A cluster can do without, so nothing that is missing or fails is an error.
 */
export async function findPolicyEngine(options: FindPolicyEngineOptions = {}): Promise<PolicyEngine> {
  const { log = silent, environment = process.env } = options;
  const named = join(environment.TENANCY_K8S_BIN || "/nowhere", PROGRAM);
  if (isProgram(named)) return { path: named };
  const home = join(cacheFolder(environment), PROGRAM);
  const folder = join(home, sourceDigest());
  const path = join(folder, PROGRAM);
  if (isProgram(path)) return { path };
  const lock = {
    what: "the program that enforces network policies",
    limitMs: LOCK_LIMIT_MS,
    onWait: ({ pid }: { pid: number }) =>
      log(`waiting for process ${pid}, which builds what enforces network policies`),
  };
  const refused = await withFileLock(join(home, "lock"), lock, async () => {
    if (isProgram(path)) return undefined;
    return await buildGo({
      what: "kube-network-policies",
      moduleFolder: MODULE_FOLDER,
      firstModule: "sigs.k8s.io/kube-network-policies",
      // Each start of a cluster waits for that long where no proxy answers.
      reachMs: 10_000,
      packages: ["."],
      // What `go-policies/go.mod` asks for.
      minimumGo: "1.26",
      linkerFlags: [],
      duration: "2 minutes on two cores",
      ...{ folder, environment, log },
    });
  }).catch((error: Error) => ({ because: error.message }));
  return refused ?? { path };
}

/** Tells one state of the program's source from another. */
function sourceDigest(): string {
  const hash = createHash("sha256");
  for (const file of ["go.mod", "go.sum", "main.go"]) hash.update(readFileSync(join(MODULE_FOLDER, file)));
  return hash.digest("hex").slice(0, 12);
}

/** Whether a cluster's network policies close anything. */
export type Policies = { readonly enforced: true } | { readonly enforced: false; readonly because: string };
