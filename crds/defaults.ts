import type { WorkloadNetwork } from "./network.ts";
import type { Scheduling } from "./scheduling.ts";
import type { VariablesSource, WorkloadVolume } from "./volumes.ts";
import type { WorkloadSpec } from "./workload.ts";

/** Between checkpoints. */
export const CHECKPOINT_SECONDS = 300;

/** What runs in the workload's container before its files are saved. */
export interface PreSave {
  readonly command: string[];
  readonly timeoutSeconds: number;
  readonly onError: "Fail" | "Continue";
}

/** How a running program is told of a claim. */
export interface ClaimHook {
  readonly call: { readonly command: string[] } | { readonly path: string; readonly port: number };
  readonly timeoutSeconds: number;
}

/** A workload's spec with every default applied. */
export interface ResolvedWorkloadSpec {
  version?: string;
  image: WorkloadSpec["image"];
  /** `vcpus` may be a fraction, in thousandths. */
  resources: { vcpus: number; memoryMb: number; diskGb: number } & Pick<
    NonNullable<WorkloadSpec["resources"]>,
    "requests" | "extended"
  >;
  network: Required<WorkloadNetwork>;
  /** Without `timeoutSeconds`, idleness never releases the claim. */
  idle: { timeoutSeconds?: number; action: "hibernate" | "destroy"; countBackgroundProcesses: boolean };
  /** Absolute, no slash at the end, none inside another. */
  filesystem: {
    overlayDirs: string[];
    preSave?: PreSave;
    saveWhileRunning: boolean;
    /** 0: no checkpoints. */
    checkpointSeconds: number;
    saveGraceSeconds: number;
  };
  /** Without a slash at the end of a path. */
  volumes: WorkloadVolume[];
  /** With ports and no check of the workload's own, a connection to the first port. Absent: no probe. */
  health?: {
    readyWhen: "Healthy" | "Running";
    intervalSeconds: number;
    unhealthyThreshold: number;
    httpGet?: { path: string; port: number };
    tcpSocket?: { port: number };
    exec?: { command: string[] };
  };
  entrypoint: {
    cmd?: string;
    args?: string[];
    env: Record<string, string>;
    envFrom: VariablesSource[];
    workdir?: string;
    start: "Warm" | "OnClaim";
    onClaim?: ClaimHook;
    startTimeoutSeconds?: number;
    stopGraceSeconds: number;
  };
  runtimeClassName?: string;
  scheduling?: Scheduling;
  podLabels: Record<string, string>;
  podAnnotations: Record<string, string>;
  serviceAccountName?: string;
}

/** Applies the defaults of the CRD, and the defaults derived from other fields, to a workload's spec. */
export function withDefaults(spec: WorkloadSpec): ResolvedWorkloadSpec {
  const { resources, network, idle, filesystem } = spec;
  const { onClaim, ...entrypoint } = spec.entrypoint ?? {};
  const health = spec.health ?? ((network?.ports ?? []).length > 0 ? {} : undefined);
  return {
    ...(spec.version !== undefined && { version: spec.version }),
    image: spec.image,
    resources: {
      vcpus: resources?.milliCpus === undefined ? (resources?.vcpus ?? 1) : resources.milliCpus / 1000,
      memoryMb: resources?.memoryMb ?? 512,
      diskGb: resources?.diskGb ?? 1,
      ...(resources?.requests !== undefined && { requests: resources.requests }),
      ...(resources?.extended !== undefined && { extended: resources.extended }),
    },
    network: {
      access: network?.access ?? "none",
      allowlist: network?.allowlist ?? [],
      credentials: network?.credentials ?? [],
      ports: network?.ports ?? [],
      portNames: network?.portNames ?? {},
      expose: network?.expose ?? "none",
    },
    idle: {
      ...(idle?.timeoutSeconds !== undefined && { timeoutSeconds: idle.timeoutSeconds }),
      action: idle?.action ?? "hibernate",
      countBackgroundProcesses: idle?.countBackgroundProcesses ?? false,
    },
    filesystem: {
      overlayDirs: outermost(filesystem?.overlayDirs ?? []),
      ...(filesystem?.preSave !== undefined && { preSave: withPreSaveDefaults(filesystem.preSave) }),
      saveWhileRunning: filesystem?.saveWhileRunning ?? false,
      checkpointSeconds: filesystem?.checkpointSeconds ?? CHECKPOINT_SECONDS,
      saveGraceSeconds: filesystem?.saveGraceSeconds ?? 120,
    },
    volumes: (spec.volumes ?? []).map(({ mountPath, ...source }) => ({
      mountPath: withoutSlash(mountPath),
      ...source,
    })),
    ...(health !== undefined && {
      health: {
        readyWhen: health.readyWhen ?? "Healthy",
        intervalSeconds: health.intervalSeconds ?? 10,
        unhealthyThreshold: health.unhealthyThreshold ?? 3,
        ...(health.httpGet !== undefined && {
          httpGet: { path: health.httpGet.path ?? "/", port: health.httpGet.port ?? endpointPort(spec) },
        }),
        ...(health.tcpSocket !== undefined && { tcpSocket: health.tcpSocket }),
        ...(health.exec !== undefined && { exec: health.exec }),
      },
    }),
    entrypoint: {
      ...entrypoint,
      env: entrypoint.env ?? {},
      envFrom: entrypoint.envFrom ?? [],
      start: entrypoint.start ?? "Warm",
      ...(onClaim !== undefined && { onClaim: withHookDefaults(onClaim, endpointPort(spec)) }),
      stopGraceSeconds: entrypoint.stopGraceSeconds ?? 20,
    },
    ...(spec.runtimeClassName !== undefined && { runtimeClassName: spec.runtimeClassName }),
    ...(spec.scheduling !== undefined && { scheduling: spec.scheduling }),
    podLabels: spec.podLabels ?? {},
    podAnnotations: spec.podAnnotations ?? {},
    ...(spec.serviceAccountName !== undefined && { serviceAccountName: spec.serviceAccountName }),
  };
}

function withPreSaveDefaults({
  command,
  timeoutSeconds = 30,
  onError = "Fail",
}: NonNullable<NonNullable<WorkloadSpec["filesystem"]>["preSave"]>): PreSave {
  return { command, timeoutSeconds, onError };
}

function withHookDefaults(
  { exec, httpPost, timeoutSeconds = 10 }: NonNullable<NonNullable<WorkloadSpec["entrypoint"]>["onClaim"]>,
  endpointPort: number,
): ClaimHook {
  const { path = "/", port = endpointPort } = httpPost ?? {};
  return { call: exec === undefined ? { path, port } : { command: exec.command }, timeoutSeconds };
}

/** Whether the program of a workload can get what a claim brings. */
export function takesClaimInputs({ entrypoint }: WorkloadSpec): boolean {
  return entrypoint?.start === "OnClaim" || entrypoint?.onClaim !== undefined;
}

/** The port of a claim's endpoint: the first of `network.ports`, else that of the health check, else 8080. */
export function endpointPort(spec: WorkloadSpec): number {
  const { httpGet, tcpSocket } = spec.health ?? {};
  return spec.network?.ports?.[0] ?? httpGet?.port ?? tcpSocket?.port ?? 8080;
}

/**
 * Normalizes the port of an address: undefined for the endpoint's own port, so that each port has only one name.
 *
 * @returns false for a port that the workload does not declare
 */
export function servedPort(spec: WorkloadSpec, port: number | undefined): number | undefined | false {
  if (port === undefined || port === endpointPort(spec)) return undefined;
  return spec.network?.ports?.includes(port) === true ? port : false;
}

/** Drops directories inside another directory of the list, which contains them already. Keeps the order. */
function outermost(directories: readonly string[]): string[] {
  const plain = [...new Set(directories.map(withoutSlash))];
  return plain.filter((inner) => !plain.some((outer) => inner.startsWith(`${outer}/`)));
}

function withoutSlash(directory: string): string {
  return directory.replace(/\/$/, "");
}
