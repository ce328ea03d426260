import { withDefaults } from "../../crds/defaults.ts";
import { imageOf, type Workload } from "../../crds/workload.ts";
import { literally } from "../literally.ts";
import type { LaunchedProgram } from "./launch-command.ts";

/**
 * The program that the launcher runs, if it is known: of a workload with files to save, or whose program starts with
 * its claim. Undefined where the container runtime starts the program, and the files are saved while it runs.
 *
 * @throws Error if the program has to start with its claim and is not known
 * @returns with the digest of the image that names the program: a tag may lead to an image with another one by now
 */
export function programToLaunch(workload: Workload): (LaunchedProgram & { digest?: string }) | undefined {
  const { entrypoint, filesystem } = withDefaults(workload.spec);
  const startsOnClaim = entrypoint.start === "OnClaim";
  const keepsFiles = filesystem.overlayDirs.length > 0 && !filesystem.saveWhileRunning;
  if (!keepsFiles && !startsOnClaim) return undefined;
  const { cmd, args: given, stopGraceSeconds } = entrypoint;
  const image = cmd === undefined ? programOfImage(workload, given) : undefined;
  const [program, ...args] = image?.words ?? (cmd === undefined ? [] : [cmd, ...(given ?? [])]);
  // The launcher gives it to `env`, for which it would be a variable.
  if (program !== undefined && !program.includes("="))
    return { program, args, stopGraceSeconds, startsOnClaim, keepsFiles, ...(image && { digest: image.digest }) };
  if (!startsOnClaim) return undefined;
  const why = program === undefined ? "it is not known" : `"${program}" has a "="`;
  throw new Error(`entrypoint.start OnClaim needs to name the program, and ${why}: set entrypoint.cmd`);
}

/**
 * What the runtime would start of an image.
 *
 * Follows https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
 */
function programOfImage(
  workload: Workload,
  args: readonly string[] | undefined,
): { words: string[]; digest: string } | undefined {
  const { entrypoint } = workload.status ?? {};
  if (entrypoint === undefined || entrypoint.image !== imageOf(workload)) return undefined;
  // Kubernetes replaces variables in a pod's command, and none in an image's own.
  const words = [...entrypoint.command.map(literally), ...(args ?? entrypoint.args.map(literally))];
  return { words, digest: entrypoint.digest };
}
