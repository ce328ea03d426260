import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { cachedGoProgram } from "../../../scripts/cluster/sources/cached-go-program.ts";

/** What GitOps tools make of one object. */
export interface Verdict {
  /** As kstatus says, by which Flux waits. */
  readonly flux: string;
  /** As manifests/argocd/health.lua says. */
  readonly argo: string;
  readonly message: string;
}

/**
 * Judges objects as Flux and Argo CD do, with the library of the one and the Lua of the other.
 *
 * @param list as `kubectl get -o json` writes several
 * @throws Error when no program can be built, or it fails
 */
export async function gitopsHealth(list: string): Promise<Verdict[]> {
  const path = await cachedGoProgram({
    ...{ what: "kstatus and Argo CD's Lua", program: "gitops-health", cache: "gitops-health" },
    moduleFolder: fileURLToPath(new URL("./gitops-health", import.meta.url)),
    ...{ firstModule: "github.com/yuin/gopher-lua", reachMs: 30_000, packages: ["."], minimumGo: "1.24" },
    duration: "half a minute on two cores",
  });
  const script = fileURLToPath(new URL("../../../manifests/argocd/health.lua", import.meta.url));
  const program = spawn(path, [script], { stdio: ["pipe", "pipe", "inherit"] });
  program.stdin.end(list);
  const [output, [code]] = await Promise.all([text(program.stdout), once(program, "exit")]);
  if (code !== 0) throw new Error(`gitops-health ended with ${code}`);
  return JSON.parse(output);
}
