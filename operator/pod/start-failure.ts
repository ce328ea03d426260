import { programContainer } from "../../crds/claims/claim-pod.ts";
import type { ContainerStatus, Pod, PodSpec } from "../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import { launchedProgram } from "../launcher/launch-command.ts";
import { TOOLS_CONTAINER } from "../snapshots/pods/pod-tools.ts";
import { pullCause } from "./pull-cause.ts";

/** Why a container does not run. */
export interface Failure {
  readonly message: string;
  /** The field or setting to change; it follows the verb "fix". */
  readonly fix: string;
}

/** The folders that are searched for a program without a path. */
const PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** The messages of containerd and CRI-O, with runc or crun, for a program that does not exist or cannot be run. */
const NOT_STARTED = [
  /exec: "([^"]+)":.*(no such file or directory|executable file not found in \$PATH|permission denied|not a directory)/,
  /executable file [`'"]([^`'"]+)[`'"] not found(?: in \$PATH)?: (No such file or directory)/,
];

/** By the cause of a failed pull: the workload's fields to change. */
const PULL_FIELDS: readonly [RegExp, string][] = [
  [/^access denied/, "spec.image.ref, or spec.image.pullSecrets"],
  [/pulls no images$/, "spec.image.pullPolicy, or load the image onto the node"],
];

/** Of an image that cannot be pulled. @param said by the kubelet */
export function pullFailure(container: ContainerStatus, said: string): Failure {
  const { name, image } = container;
  const detail = pullCause(said, image);
  if (name === WORKLOAD_CONTAINER) {
    // A built image is named by its digest, and the registry may have deleted it.
    const built = `; if the image is built from a Dockerfile: TENANCY_REGISTRY_PULL_SECRET of the operator, or build it again with another value of the annotation ${annotation.rebuild}`;
    const field = PULL_FIELDS.find(([words]) => words.test(detail))?.[1] ?? "spec.image.ref";
    const fix = `the workload's ${field}${image.includes("@sha256:") ? built : ""}`;
    return { message: `image ${image} cannot be pulled: ${detail}`, fix };
  }
  const variable = name === TOOLS_CONTAINER ? "TENANCY_TOOLS_IMAGE" : "TENANCY_PROXY_IMAGE";
  return {
    message: `image ${image} of the operator's own container "${name}" cannot be pulled: ${detail}`,
    fix: `${variable} of the operator`,
  };
}

/**
 * The failure of a program that can never start, from the message of the container runtime: the program does not exist
 * in the container, or it is not executable. Undefined if a later start may succeed.
 */
export function programFailure(pod: Pod, status: ContainerStatus): Failure | undefined {
  const said = startError(status) ?? launchError(pod, status);
  if (said === undefined || status.name !== WORKLOAD_CONTAINER) return undefined;
  const match = NOT_STARTED.map((pattern) => pattern.exec(said)).find((found) => found !== null);
  if (match === undefined || match === null) return undefined;
  const [, program = "", why = ""] = match;
  const field = programField(pod.spec, program);
  if (/permission denied/i.test(why)) {
    return {
      message: `the program "${program}" cannot be run (permission denied): it is not executable for the user of the image`,
      fix: field,
    };
  }
  const { overlayDirs } = podFiles(pod);
  const hiding = hidingFolder(program, overlayDirs);
  const message = `there is no program "${program}" in the container`;
  if (hiding === undefined) return { message, fix: field };
  return {
    message: `${message}: overlay directory "${hiding}" hides what the image has there`,
    fix: "the workload's spec.filesystem.overlayDirs, which are for data and not for programs",
  };
}

/** How a container ended, and what to change. */
export function endFailure(pod: Pod, status: ContainerStatus): Failure | undefined {
  const end = status.state?.terminated ?? status.lastState?.terminated;
  if (end === undefined) return undefined;
  const container = pod.spec.containers.find(({ name }) => name === status.name);
  const said = end.message?.trim();
  const lines = said ? ` (${said})` : "";
  if (status.name !== WORKLOAD_CONTAINER)
    return {
      message: `exit code ${end.exitCode}${lines}`,
      fix: `what its log says: kubectl logs ${pod.metadata.name} -c ${status.name}`,
    };
  if (end.reason === "OOMKilled") {
    const limit = container?.resources?.limits?.memory;
    const limited = limit === undefined ? "" : `, its limit is ${limit.replace(/Mi$/, " MB")}`;
    return {
      message: `out of memory${limited} (exit code ${end.exitCode})`,
      fix: "the workload's spec.resources.memoryMb, or its program",
    };
  }
  const workdir = container?.workingDir;
  if (workdir !== undefined && isStartError(end.reason) && said?.includes(workdir))
    return { message: `it could not be started${lines}`, fix: "the workload's spec.entrypoint.workdir" };
  if (isStartError(end.reason))
    return { message: `it could not be started${lines}`, fix: "the workload's spec.entrypoint" };
  const goesOn = end.exitCode === 0 ? ", but the program has to keep running" : "";
  const why = lines || (end.reason ? ` (${end.reason})` : "");
  return {
    message: `exit code ${end.exitCode}${why}${goesOn}`,
    fix: "the workload's spec.entrypoint, or the program in its image",
  };
}

/** The message of the container runtime if it could not start the container. */
function startError({ state, lastState }: ContainerStatus): string | undefined {
  // While the container runs, how an earlier run ended does not matter.
  if (state?.running !== undefined) return undefined;
  const { waiting } = state ?? {};
  if (waiting?.reason === "RunContainerError" || waiting?.reason === "CreateContainerError") return waiting.message;
  const end = state?.terminated ?? lastState?.terminated;
  return isStartError(end?.reason) ? end?.message : undefined;
}

/** What the launcher said when it could not start the program: it uses the words of the container runtime. */
function launchError({ spec }: Pod, { state, lastState }: ContainerStatus): string | undefined {
  if (state?.running !== undefined || launchedProgram(spec) === undefined) return undefined;
  const end = state?.terminated ?? lastState?.terminated;
  return end?.exitCode === 126 || end?.exitCode === 127 ? end.message : undefined;
}

function isStartError(reason: string | undefined): boolean {
  return reason === "StartError" || reason === "ContainerCannotRun";
}

/** The field that names the program; if none does, the image. */
function programField(spec: PodSpec, program: string): string {
  if (launchedProgram(spec) !== undefined)
    return "the workload's spec.entrypoint.cmd; without it, the image names this program";
  const container = programContainer(spec);
  if (container?.command?.[0] === program) return "the workload's spec.entrypoint.cmd";
  if (container?.args?.[0] === program)
    return "the workload's spec.entrypoint: args without cmd name the program if the image has no entrypoint";
  return "the workload's spec.image.ref, or name a program in spec.entrypoint.cmd: the image itself names this one";
}

/** The overlay directory that hides the folder of the program. */
function hidingFolder(program: string, overlayDirs: readonly string[]): string | undefined {
  const places = program.startsWith("/") ? [program] : PATH.map((folder) => `${folder}/${program}`);
  return overlayDirs.find((folder) => places.some((place) => place.startsWith(`${folder.replace(/\/+$/, "")}/`)));
}
