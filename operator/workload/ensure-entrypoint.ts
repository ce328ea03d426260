import { withDefaults } from "../../crds/defaults.ts";
import type { ConditionNow } from "../../crds/schema/condition.ts";
import type { EntrypointStatus, Workload } from "../../crds/workload.ts";
import type { WorkState } from "../background-work.ts";
import { programToLaunch } from "../launcher/program-to-launch.ts";
import { pullSecretsOf } from "../pod/render-pod.ts";
import { pullSecretProblems, readPullSecrets } from "../registry/pull-secrets.ts";
import type { ImageConfig } from "../registry/read-image-config.ts";
import { RegistryError } from "../registry/registry-error.ts";
import { readRegistrySettings } from "../registry/registry-settings.ts";
import type { WorkloadContext } from "./context.ts";

/** What is known of the program that a workload's image names. */
export interface EntrypointOutcome {
  /** Undefined where nothing is known of this image, or nothing is needed. */
  readonly entrypoint: EntrypointStatus | undefined;
  /** Undefined where nothing is needed. */
  readonly condition: ConditionNow | undefined;
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number | undefined;
}

const CONDITION = "EntrypointKnown";
const READING = "ReadingImage";
/** How long a workload waits for it to be read: pods that are made before have no launcher. */
const HOLD_MS = 5000;
const REMEDY = "set spec.entrypoint.cmd";
const NOTHING: EntrypointOutcome = { entrypoint: undefined, condition: undefined };

/**
 * Finds out which program a workload's image names, where its pods may need to know it: the workload has overlay
 * directories or a program that starts with its claim, and no command of its own. It is read in the background, once
 * for each image and generation of the spec, since a tag may lead elsewhere by then; an image with a digest is read
 * once. A registry that cannot be asked is asked again, and the workload is ready all the same.
 *
 * @param options.image of the pods. @default none: it is not built yet
 * @param options.pulledWith what is known of the Secrets that it is pulled with: it is read again when that changes
 */
export function ensureEntrypoint(
  workload: Workload,
  {
    image,
    pulledWith,
    context,
  }: { image: string | undefined; pulledWith?: string | undefined; context: WorkloadContext },
): EntrypointOutcome {
  const { name, generation = 0 } = workload.metadata;
  const { filesystem, entrypoint } = withDefaults(workload.spec);
  const isNeeded = filesystem.overlayDirs.length > 0 || entrypoint.start === "OnClaim";
  if (image === undefined || !isNeeded || entrypoint.cmd !== undefined) {
    forgetEntrypoint(workload, context);
    return NOTHING;
  }
  const before = workload.status?.entrypoint;
  const known = before?.image === image ? before : undefined;
  if (known !== undefined && (image.includes("@") || known.observedGeneration === generation)) {
    forgetEntrypoint(workload, context);
    return { entrypoint: known, condition: conditionOf(workload, known) };
  }
  const work = lookUp(workload, { image, pulledWith, context });
  switch (work.state) {
    case "done": {
      const { digest, command, args } = work.value;
      const found = { image, digest, command: [...command], args: [...args], observedGeneration: generation };
      context.log.info({ workload: name, image, digest }, "image configuration read");
      return { entrypoint: found, condition: conditionOf(workload, found) };
    }
    case "running":
      return { entrypoint: known, condition: whileRunning(workload, known) };
    case "failed": {
      const condition = known ? conditionOf(workload, known, work.error) : failure(work.error);
      return { entrypoint: known, condition, requeueAfterMs: work.retryInMs };
    }
    default:
      return work satisfies never;
  }
}

/** Why a program of an image cannot start with its claim. Undefined if it can, or while the image is read. */
export function startProblem(
  workload: Workload,
  { condition, entrypoint }: EntrypointOutcome,
): { reason: string; message: string } | undefined {
  if (workload.spec.entrypoint?.start !== "OnClaim") return undefined;
  if (entrypoint === undefined) {
    if (condition?.status !== "False") return undefined;
    return { reason: condition.reason, message: `spec.entrypoint.start is OnClaim: ${condition.message}` };
  }
  try {
    programToLaunch({ ...workload, status: { phase: "Creating", ...workload.status, entrypoint } });
    return undefined;
  } catch (error) {
    return { reason: "NoProgram", message: error instanceof Error ? error.message : String(error) };
  }
}

/** How long a workload is not ready yet, since its image is being read; 0 where it need not wait, or not any longer. */
export function holdMs({ condition }: EntrypointOutcome, { spec, status }: Workload, now: number): number {
  if (condition?.reason !== READING) return 0;
  if (spec.entrypoint?.start === "OnClaim") return HOLD_MS;
  const former = status?.conditions?.find(({ type, reason }) => type === CONDITION && reason === READING);
  return former === undefined ? HOLD_MS : Math.max(0, Date.parse(former.lastTransitionTime) + HOLD_MS - now);
}

/** What a status says that is written without a look at the image. */
export function formerEntrypoint({ status }: Workload): EntrypointOutcome {
  const former = status?.conditions?.find(({ type }) => type === CONDITION);
  if (former === undefined) return { entrypoint: status?.entrypoint, condition: undefined };
  const { type, status: state, reason, message } = former;
  return { entrypoint: status?.entrypoint, condition: { type, status: state, reason, message } };
}

/** To be called when the workload is gone, or nothing is to be read for it any more. */
export function forgetEntrypoint({ metadata: { uid = "" } }: Workload, context: WorkloadContext): void {
  const { imageLookups, imageReads } = context;
  const id = imageLookups.get(uid);
  if (id === undefined) return;
  imageLookups.delete(uid);
  imageReads.forget(id);
}

function lookUp(
  workload: Workload,
  { image, pulledWith = "", context }: { image: string; pulledWith: string | undefined; context: WorkloadContext },
): WorkState<ImageConfig> {
  const { imageLookups, imageReads, enqueueWorkload } = context;
  const { name, uid = "", generation = 0 } = workload.metadata;
  const id = `${uid} ${generation} ${image} ${pulledWith}`;
  if (imageLookups.get(uid) !== id) forgetEntrypoint(workload, context);
  imageLookups.set(uid, id);
  return imageReads.run(
    id,
    (signal) => readImage({ ref: image, workload, signal }, context),
    () => enqueueWorkload(name),
  );
}

async function readImage(
  { ref, workload, signal }: { ref: string; workload: Workload; signal: AbortSignal },
  { cluster, config: { builds }, readImageConfig }: WorkloadContext,
): Promise<ImageConfig> {
  const settings = await readRegistrySettings(cluster, { builds, signal });
  const named = pullSecretsOf(workload, builds);
  const secrets = await readPullSecrets(cluster, { named, signal });
  try {
    return await readImageConfig({ ref, logins: secrets.logins, settings, signal });
  } catch (error) {
    const problems = pullSecretProblems(secrets);
    if (!(error instanceof RegistryError) || error.reason !== "RegistryUnauthorized" || problems.length === 0) {
      throw error;
    }
    throw new RegistryError(error.reason, [error.message, ...problems].join("; "), { cause: error });
  }
}

/** @param error of a later look; what was found before stays */
function conditionOf({ spec }: Workload, { digest, command, args }: EntrypointStatus, error?: unknown): ConditionNow {
  if ([...command, ...(spec.entrypoint?.args ?? args)].length === 0) {
    return {
      ...{ type: CONDITION, status: "False", reason: "NoProgram" },
      message: `The image ${digest} names no program: ${REMEDY}`,
    };
  }
  const message = `It was read from the image ${digest}`;
  if (error === undefined) return { type: CONDITION, status: "True", reason: "ImageRead", message };
  const { reason, why } = explain(error);
  return { type: CONDITION, status: "True", reason, message: `${message}; the image now: ${why}` };
}

function failure(error: unknown): ConditionNow {
  const { reason, why } = explain(error);
  const message = `The image's own command is not known: ${why}; ${REMEDY}, or wait: it is tried again`;
  return { type: CONDITION, status: "False", reason, message };
}

function explain(error: unknown): { reason: string; why: string } {
  const why = error instanceof Error ? error.message : String(error);
  return { reason: error instanceof RegistryError ? error.reason : "RegistryUnreachable", why };
}

/** A retry leaves what was said of the failure before it. */
function whileRunning(workload: Workload, known: EntrypointStatus | undefined): ConditionNow {
  const isSame = workload.status?.observedGeneration === workload.metadata.generation;
  const former = isSame ? formerEntrypoint(workload).condition : undefined;
  if (known !== undefined) return former ?? conditionOf(workload, known);
  if (former?.status === "False") return former;
  return {
    ...{ type: CONDITION, status: "Unknown", reason: READING },
    message: "The image's own command is being read from its registry",
  };
}
