import { ApiError } from "../../crds/client/api-error.ts";
import { configMaps, persistentVolumeClaims, pods, secrets } from "../../crds/client/built-in-resources.ts";
import { secretRefusal, sourceRefusal } from "../../crds/secret-refusal.ts";
import type { Workload, WorkloadSpec } from "../../crds/workload.ts";
import { renderPod } from "../pod/render-pod.ts";
import type { WorkloadContext } from "./context.ts";

export interface SourcesOutcome {
  /** Why the workload cannot be ready. */
  readonly problem?: { readonly reason: string; readonly message: string };
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number;
}

/** An object that a pod has files or variables from. */
interface Source {
  readonly kind: "ConfigMap" | "Secret" | "PersistentVolumeClaim";
  readonly name: string;
  /** The first field that names it. */
  readonly field: string;
}

/** The name of a pod that is never created. */
const PROBE = "tenancy-volumes-probe";
const IMAGE_VOLUMES_OFF =
  "spec.volumes: the API server has no image volumes: switch on its feature gate ImageVolume (Kubernetes 1.33), or put the files into the workload's own image";
const MISSING_AGAIN_MS = 30_000;
const FOUND_AGAIN_MS = 10 * 60_000;

/**
 * Looks for what `spec.volumes` and `spec.entrypoint.envFrom` need: the kubelet would wait in each pod for an object
 * that is missing, and give every other one to the program.
 */
export async function findSources(
  workload: Workload,
  context: Pick<WorkloadContext, "cluster" | "config">,
): Promise<SourcesOutcome> {
  const { spec } = workload;
  const sources = sourcesOf(spec);
  const hasImages = spec.volumes?.some(({ image }) => image !== undefined) === true;
  if (sources.length === 0 && !hasImages) return {};
  let reason = "SourceMissing";
  const problems: string[] = [];
  for (const source of sources) {
    const refusal = await refusalOf(source, context);
    if (refusal === undefined) continue;
    if (refusal.isRefused) reason = source.kind === "Secret" ? "SecretRefused" : "SourceRefused";
    problems.push(`${source.field}: ${refusal.message}`);
  }
  if (problems.length === 0 && hasImages && (await lacksImageVolumes(workload, context))) {
    reason = "ImageVolumesUnavailable";
    problems.push(IMAGE_VOLUMES_OFF);
  }
  if (problems.length === 0) return { requeueAfterMs: FOUND_AGAIN_MS };
  return { problem: { reason, message: problems.join("; ") }, requeueAfterMs: MISSING_AGAIN_MS };
}

/** Whether the workload's pods have files or variables from the Secret. */
export function readsSecret(spec: WorkloadSpec, name: string): boolean {
  return sourcesOf(spec).some((source) => source.kind === "Secret" && source.name === name);
}

function sourcesOf({ volumes = [], entrypoint }: WorkloadSpec): Source[] {
  const named = [
    ...volumes.flatMap(({ configMap, secret, persistentVolumeClaim }, index) => {
      const field = `spec.volumes[${index}]`;
      return [
        { kind: "ConfigMap", name: configMap?.name, field },
        { kind: "Secret", name: secret?.secretName, field },
        { kind: "PersistentVolumeClaim", name: persistentVolumeClaim?.claimName, field },
      ];
    }),
    ...(entrypoint?.envFrom ?? []).flatMap(({ configMapRef, secretRef }, index) => {
      const field = `spec.entrypoint.envFrom[${index}]`;
      return [
        { kind: "ConfigMap", name: configMapRef?.name, field },
        { kind: "Secret", name: secretRef?.name, field },
      ];
    }),
  ].filter((source): source is Source => source.name !== undefined);
  const isFirst = ({ kind, name }: Source, index: number) =>
    named.findIndex((other) => other.kind === kind && other.name === name) === index;
  return named.filter(isFirst);
}

/**
 * Whether the API server leaves image volumes out of pods, which it does without a word where their feature gate is
 * off. Why it refuses a pod, the claims say.
 */
async function lacksImageVolumes(
  workload: Workload,
  { cluster, config }: Pick<WorkloadContext, "cluster" | "config">,
): Promise<boolean> {
  const pod = renderPod(workload, { name: PROBE, labels: {}, annotations: {} }, config);
  try {
    const { spec } = await cluster(pods).create(pod, { dryRun: true });
    return !(spec.volumes ?? []).some(({ image }) => image !== undefined);
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return false;
    throw error;
  }
}

async function refusalOf(
  { kind, name }: Source,
  { cluster, config: { secretPolicy: policy, namespace } }: Pick<WorkloadContext, "cluster" | "config">,
): Promise<{ readonly message: string; readonly isRefused: boolean } | undefined> {
  const missing = { message: `there is no ${kind} ${name} in the namespace ${namespace}: create it`, isRefused: false };
  if (kind === "Secret") {
    const secret = await cluster(secrets).named(name).find();
    const message = secretRefusal({ name, secret, use: "workload", policy });
    if (message !== undefined) return { message, isRefused: true };
    return secret === undefined ? missing : undefined;
  }
  const object = await cluster(kind === "ConfigMap" ? configMaps : persistentVolumeClaims)
    .named(name)
    .find();
  if (object === undefined) return missing;
  const message = sourceRefusal({ kind, object, policy });
  return message === undefined ? undefined : { message, isRefused: true };
}
