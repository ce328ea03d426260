import { OVERLAY_ID_MESSAGE, programContainer } from "../../../crds/claims/claim-pod.ts";
import type { Container, PodSpec, ResourceRequirements, Volume, VolumeMount } from "../../../crds/kubernetes.ts";
import { annotation, TOOLS_INSIDE } from "../../../crds/labels.ts";
import { writeStartProgram } from "../../launcher/start-program.ts";

/** The folder of the tools in the workload's container, read-only. Its name is unlikely to be in an image. */
export const TOOLS_FOLDER = "/.tenancy";

/** The only program that saves and restores need: busybox, linked statically. */
export const TOOLS_BUSYBOX = `${TOOLS_FOLDER}/busybox`;

/** The program that starts the workload's, where the launcher does that. */
export const START_PROGRAM = `${TOOLS_FOLDER}/start`;

/** busybox and `inside` in the tools image, and so in the init container. */
export const TOOLS_IMAGE_BUSYBOX = "/bin/busybox";
export const TOOLS_IMAGE_INSIDE = "/bin/inside";

/** The init container that copies the tools, and through which files are restored before the workload starts. */
export const TOOLS_CONTAINER = "tenancy-tools";

/** The named pipe that holds the workload's start until `restoreOverlay` has restored all files. */
export const RESTORE_GATE = `${TOOLS_FOLDER}/gate`;

/**
 * Identifies the pod's overlay directories. They are created together with the volume of this file. If they were lost,
 * for example because a node got a pod again that it had ended, this file was lost too, and a new one is written.
 */
const OVERLAY_ID = `${TOOLS_FOLDER}/overlay-id`;

const TOOLS_VOLUME = "tenancy-tools";
const OVERLAY_VOLUME = "tenancy-overlay";
const LAUNCHER_VOLUME = "tenancy-launcher";
/** A claim can bring 1 MiB of files in an archive. */
const LAUNCHER_VOLUME_SIZE = "4Mi";
const UNPRIVILEGED = 65532;

export interface PodToolsOptions {
  /** An image with a static busybox at `/bin/busybox`, and maybe `inside` at `/bin/inside`. */
  readonly image: string;
  /** Absolute paths of directories. */
  readonly overlayDirs: readonly string[];
  /** Limits the overlay directories together, in GiB. */
  readonly diskGb: number;
  /**
   * For `cold+data`: the user that the archive was saved as. The init container then runs as that user and waits for
   * the restore.
   * @default the init container copies the tools and does not wait
   */
  readonly restoreAs?: { readonly uid: number; readonly gid: number } | undefined;
  /** Whether the pod gets the tools also with neither saved directories nor a launcher. @default false */
  readonly isAsked?: boolean | undefined;
  /** Where the launcher keeps its state, and the files of a claim are; undefined where the pod has none. */
  readonly launcherFolder?: string | undefined;
  /** @default what is little enough to fit beside the smallest workload */
  readonly resources?: ResourceRequirements | undefined;
}

/**
 * The parts of a pod for saving and restoring its overlay directories, for its launcher, and for calls of the edge in
 * its container; empty for a workload that needs none of them.
 */
export interface PodTools {
  readonly initContainers: Container[];
  readonly volumes: Volume[];
  /** For the workload's own container. */
  readonly volumeMounts: VolumeMount[];
}

/**
 * Renders the overlay volumes, and an init container that copies static programs into the pod. So the workload's image
 * needs no shell or other tools, only the workload's program.
 */
export function podTools(options: PodToolsOptions): PodTools {
  const { image, overlayDirs, diskGb, restoreAs, launcherFolder, isAsked = false } = options;
  if (overlayDirs.length === 0 && launcherFolder === undefined && !isAsked)
    return { initContainers: [], volumes: [], volumeMounts: [] };
  const { uid, gid } = restoreAs ?? { uid: UNPRIVILEGED, gid: UNPRIVILEGED };
  const overlays = overlayDirs.map((mountPath, index) => ({ name: `${OVERLAY_VOLUME}-${index}`, mountPath }));
  const script = [
    copyScript,
    ...(overlayDirs.length === 0 ? [] : [idScript]),
    ...(launcherFolder === undefined ? [] : [startScript]),
    ...(restoreAs === undefined ? [] : [waitScript]),
  ].join("\n");
  const command = [TOOLS_IMAGE_BUSYBOX, "sh", "-c", script];
  const securityContext = {
    runAsUser: uid,
    runAsGroup: gid,
    runAsNonRoot: uid !== 0,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
  };
  const resources = options.resources ?? {
    limits: { cpu: "1", memory: "64Mi", "ephemeral-storage": "64Mi" },
    requests: { cpu: "10m", memory: "16Mi", "ephemeral-storage": "16Mi" },
  };
  const volumeMounts = [{ name: TOOLS_VOLUME, mountPath: TOOLS_FOLDER }, ...(restoreAs === undefined ? [] : overlays)];
  return {
    initContainers: [{ name: TOOLS_CONTAINER, image, command, securityContext, resources, volumeMounts }],
    volumes: [
      { name: TOOLS_VOLUME, emptyDir: { sizeLimit: "16Mi" } },
      ...overlays.map(({ name }) => ({ name, emptyDir: { sizeLimit: `${diskGb}Gi` } })),
      ...(launcherFolder === undefined
        ? []
        : [{ name: LAUNCHER_VOLUME, emptyDir: { medium: "Memory", sizeLimit: LAUNCHER_VOLUME_SIZE } }]),
    ],
    volumeMounts: [
      { name: TOOLS_VOLUME, mountPath: TOOLS_FOLDER, readOnly: true },
      ...overlays,
      ...(launcherFolder === undefined ? [] : [{ name: LAUNCHER_VOLUME, mountPath: launcherFolder }]),
    ],
  };
}

/** The annotations that name a pod's overlay directories, derived from its spec, which cannot be edited. */
export function overlayStamps(spec: PodSpec): Record<string, string | undefined> {
  const isOverlay = ({ name }: { name: string }) => name.startsWith(`${OVERLAY_VOLUME}-`);
  const own = programContainer(spec);
  const overlayDirs = own?.volumeMounts?.filter(isOverlay).map(({ mountPath }) => mountPath) ?? [];
  if (overlayDirs.length === 0) return { [annotation.overlayDirs]: undefined, [annotation.diskGb]: undefined };
  const diskGb = /^(\d+)Gi$/.exec(spec.volumes?.find(isOverlay)?.emptyDir?.sizeLimit ?? "")?.[1];
  return {
    [annotation.overlayDirs]: JSON.stringify(overlayDirs),
    ...(diskGb !== undefined && { [annotation.diskGb]: diskGb }),
  };
}

// A restarted container finds the files of its earlier run, so it deletes them first.
const copyScript = `set -e
${TOOLS_IMAGE_BUSYBOX} rm -rf ${RESTORE_GATE} ${TOOLS_BUSYBOX} ${TOOLS_INSIDE}
${TOOLS_IMAGE_BUSYBOX} cp ${TOOLS_IMAGE_BUSYBOX} ${TOOLS_BUSYBOX}
${TOOLS_IMAGE_BUSYBOX} chmod 0555 ${TOOLS_BUSYBOX}
if [ -f ${TOOLS_IMAGE_INSIDE} ]; then
  ${TOOLS_IMAGE_BUSYBOX} cp ${TOOLS_IMAGE_INSIDE} ${TOOLS_INSIDE}
  ${TOOLS_IMAGE_BUSYBOX} chmod 0555 ${TOOLS_INSIDE}
fi`;

const idScript = `[ -s ${OVERLAY_ID} ] ||
  ${TOOLS_IMAGE_BUSYBOX} head -c 16 /dev/urandom | ${TOOLS_IMAGE_BUSYBOX} md5sum | ${TOOLS_IMAGE_BUSYBOX} cut -c 1-32 > ${OVERLAY_ID} || :
{ echo "${OVERLAY_ID_MESSAGE}$(${TOOLS_IMAGE_BUSYBOX} cat ${OVERLAY_ID})" > /dev/termination-log; } 2> /dev/null || :`;

const startScript = `${TOOLS_IMAGE_BUSYBOX} rm -f ${START_PROGRAM}
${writeStartProgram({ busybox: TOOLS_IMAGE_BUSYBOX, path: START_PROGRAM })}`;

// Process 1 ends by a signal only when it handles it, and handles none while it opens a pipe; so a child does that.
// A pod that starts again after its node did still has the files, and they are newer than any archive.
const waitScript = `[ ! -e ${TOOLS_FOLDER}/restored ] || exit 0
trap 'exit 143' TERM
${TOOLS_IMAGE_BUSYBOX} mkfifo ${RESTORE_GATE}
${TOOLS_IMAGE_BUSYBOX} cat ${RESTORE_GATE} > ${TOOLS_FOLDER}/verdict &
wait $!
read -r verdict < ${TOOLS_FOLDER}/verdict
${TOOLS_IMAGE_BUSYBOX} rm -f ${RESTORE_GATE} ${TOOLS_FOLDER}/verdict
[ "$verdict" = restored ] && : > ${TOOLS_FOLDER}/restored`;
