import type { Container, ContainerStatus, Pod } from "../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import { TOOLS_CONTAINER } from "../snapshots/pods/pod-tools.ts";
import { pullCause } from "./pull-cause.ts";

/** What keeps a container from running, and which field or setting to change; the latter as the object of "mend". */
export interface Failure {
  readonly message: string;
  readonly mend: string;
}

/** Where programs are looked for that are named without a folder. */
const PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** How containerd and CRI-O, by runc or crun, say that there is no such program, or none that can be run. */
const NOT_STARTED = [
  /exec: "([^"]+)":.*(no such file or directory|executable file not found in \$PATH|permission denied|not a directory)/,
  /executable file [`'"]([^`'"]+)[`'"] not found(?: in \$PATH)?: (No such file or directory)/,
];

/** Of an image that cannot be pulled. @param said by the kubelet */
export function pullFailure(container: ContainerStatus, said: string): Failure {
  const { name, image } = container;
  const detail = pullCause(said, image);
  if (name === WORKLOAD_CONTAINER) {
    // Those that are built are named by their digest, which the registry may have deleted.
    const built = `; of an image that is built, TENANCY_REGISTRY_PULL_SECRET of the operator, or build it anew by another value of the annotation ${annotation.rebuild}`;
    const mend = `the workload's spec.image.ref${image.includes("@sha256:") ? built : ""}`;
    return { message: `image ${image} cannot be pulled: ${detail}`, mend };
  }
  const variable = name === TOOLS_CONTAINER ? "TENANCY_TOOLS_IMAGE" : "TENANCY_PROXY_IMAGE";
  return {
    message: `image ${image} of the operator's own container "${name}" cannot be pulled: ${detail}`,
    mend: `${variable} of the operator`,
  };
}

/**
 * Of a program that cannot be started and never will be, as the container runtime says: there is no such program in the
 * container, or it may not be run. Undefined where it may be another time.
 */
export function programFailure(pod: Pod, status: ContainerStatus): Failure | undefined {
  const said = startError(status);
  if (said === undefined || status.name !== WORKLOAD_CONTAINER) return undefined;
  const container = pod.spec.containers.find(({ name }) => name === WORKLOAD_CONTAINER);
  const match = NOT_STARTED.map((pattern) => pattern.exec(said)).find((found) => found !== null);
  if (match === undefined || match === null) return undefined;
  const [, program = "", why = ""] = match;
  const field = programField(container, program);
  if (/permission denied/i.test(why)) {
    return {
      message: `the program "${program}" may not be run (permission denied): it is no executable file for the user that the image runs as`,
      mend: field,
    };
  }
  const { overlayDirs } = podFiles(pod);
  const hiding = hidingFolder(program, overlayDirs);
  const message = `there is no program "${program}" in the container`;
  if (hiding === undefined) return { message, mend: field };
  return {
    message: `${message}: overlay directory "${hiding}" hides what the image has there`,
    mend: "the workload's spec.filesystem.overlayDirs, which are for data and not for programs",
  };
}

/** How a container ended, in words that say what to do. */
export function endFailure(pod: Pod, status: ContainerStatus): Failure | undefined {
  const end = status.state?.terminated ?? status.lastState?.terminated;
  if (end === undefined) return undefined;
  const container = pod.spec.containers.find(({ name }) => name === status.name);
  const said = end.message?.trim();
  const lines = said ? ` (${said})` : "";
  if (status.name !== WORKLOAD_CONTAINER)
    return {
      message: `exit code ${end.exitCode}${lines}`,
      mend: `what its log says: kubectl logs ${pod.metadata.name} -c ${status.name}`,
    };
  if (end.reason === "OOMKilled") {
    const limit = container?.resources?.limits?.memory;
    const limited = limit === undefined ? "" : `, its limit is ${limit.replace(/Mi$/, " MB")}`;
    return {
      message: `out of memory${limited} (exit code ${end.exitCode})`,
      mend: "the workload's spec.resources.memoryMb, or its program",
    };
  }
  const workdir = container?.workingDir;
  if (workdir !== undefined && isStartError(end.reason) && said?.includes(workdir))
    return { message: `it could not be started${lines}`, mend: "the workload's spec.entrypoint.workdir" };
  if (isStartError(end.reason))
    return { message: `it could not be started${lines}`, mend: "the workload's spec.entrypoint" };
  const goesOn = end.exitCode === 0 ? ", though an instance's program has to go on running" : "";
  const why = lines || (end.reason ? ` (${end.reason})` : "");
  return {
    message: `exit code ${end.exitCode}${why}${goesOn}`,
    mend: "the workload's spec.entrypoint, or the program in its image",
  };
}

/** What the container runtime said when it could not start the container at all. */
function startError({ state, lastState }: ContainerStatus): string | undefined {
  // An earlier run's end is over.
  if (state?.running !== undefined) return undefined;
  const { waiting } = state ?? {};
  if (waiting?.reason === "RunContainerError" || waiting?.reason === "CreateContainerError") return waiting.message;
  const end = state?.terminated ?? lastState?.terminated;
  return isStartError(end?.reason) ? end?.message : undefined;
}

function isStartError(reason: string | undefined): boolean {
  return reason === "StartError" || reason === "ContainerCannotRun";
}

/** Which field names the program that is run: without any, the image does. */
function programField(container: Container | undefined, program: string): string {
  if (container?.command?.[0] === program) return "the workload's spec.entrypoint.cmd";
  if (container?.args?.[0] === program)
    return "the workload's spec.entrypoint: args without cmd are a program of their own where the image has no entrypoint";
  return "the workload's spec.image.ref, or name a program in spec.entrypoint.cmd: the image itself names this one";
}

/** The overlay directory that lies over where the program would be. */
function hidingFolder(program: string, overlayDirs: readonly string[]): string | undefined {
  const places = program.startsWith("/") ? [program] : PATH.map((folder) => `${folder}/${program}`);
  return overlayDirs.find((folder) => places.some((place) => place.startsWith(`${folder.replace(/\/+$/, "")}/`)));
}
