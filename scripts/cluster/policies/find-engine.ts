import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Log } from "../log.ts";
import { cachedGoProgram } from "../sources/cached-go-program.ts";
import { isProgram } from "../sources/find-on-path.ts";

/** The program that enforces network policies, or why there is none. */
export type PolicyEngine = { readonly path: string } | { readonly because: string };

export interface FindPolicyEngineOptions {
  log?: Log;
  environment?: NodeJS.ProcessEnv;
}

const PROGRAM = "network-policies";

/**
 * Returns the path of the program that enforces network policies: in the folder `TENANCY_K8S_BIN`, in the cache, or
 * built now from Go modules. A cluster works without it, so a failure here is not an error.
 */
export async function findPolicyEngine(options: FindPolicyEngineOptions = {}): Promise<PolicyEngine> {
  const { log, environment = process.env } = options;
  const named = join(environment.TENANCY_K8S_BIN || "/nowhere", PROGRAM);
  if (isProgram(named)) return { path: named };
  try {
    const path = await cachedGoProgram({
      what: "kube-network-policies",
      program: PROGRAM,
      cache: PROGRAM,
      moduleFolder: fileURLToPath(new URL("../go-policies", import.meta.url)),
      firstModule: "sigs.k8s.io/kube-network-policies",
      // If no module proxy responds, each start of a cluster waits this long.
      reachMs: 10_000,
      packages: ["."],
      // What `go-policies/go.mod` asks for.
      minimumGo: "1.26",
      duration: "2 minutes on two cores",
      environment,
      ...(log !== undefined && { log }),
    });
    return { path };
  } catch (error) {
    return { because: (error as Error).message };
  }
}

/** Whether a cluster's network policies are enforced. */
export type Policies = { readonly enforced: true } | { readonly enforced: false; readonly because: string };
