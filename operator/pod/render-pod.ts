import { createHash } from "node:crypto";
import { endpointPort, type ResolvedWorkloadSpec, withDefaults } from "../../crds/defaults.ts";
import type { Pod, PodSpec, Probe } from "../../crds/kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { imageOf, type Workload } from "../../crds/workload.ts";
import type { OperatorConfig } from "../config.ts";
import { egressRules } from "../egress/egress-rules.ts";
import {
  type EgressSidecar,
  egressSidecar,
  pickProxyUid,
  shareInitContainer,
  TEMPLATE_PROXY_UID,
} from "../egress/egress-sidecar.ts";
import { podTools } from "../snapshots/pods/pod-tools.ts";

/** The name, labels and annotations that distinguish a pod from others of the same workload. */
export interface PodIdentity {
  name: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

// A release deletes the pod after the tenant's files are saved, so a program that ignores SIGTERM should delay it only
// briefly.
const TERMINATION_GRACE_SECONDS = 10;

/** The user and group that files are restored as. */
export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Renders the hardened pod of a workload.
 *
 * @param restoreAs if set, the pod waits for restored files before the workload starts
 */
export function renderPod(
  workload: Workload,
  identity: PodIdentity,
  config: OperatorConfig,
  { restoreAs }: { restoreAs?: FileOwner | undefined } = {},
): Pod {
  const spec = renderPodSpec(workload, config, { restoreAs, proxyUid: pickProxyUid() });
  const resolved = withDefaults(workload.spec);
  const { overlayDirs, preSave } = resolved.filesystem;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: identity.name,
      namespace: config.namespace,
      labels: { [label.managed]: "true", [label.workload]: workload.metadata.name, ...identity.labels },
      annotations: {
        [annotation.templateHash]: templateHash(workload, config) ?? "",
        [annotation.isolation]: isolationHash(workload, config) ?? "",
        [annotation.workloadUid]: workload.metadata.uid ?? "",
        [annotation.idleAction]: resolved.idle.action,
        ...(resolved.idle.timeoutSeconds !== undefined && {
          [annotation.idleTimeoutSeconds]: String(resolved.idle.timeoutSeconds),
        }),
        // Without this, kubectl would use the first container, which is the proxy.
        ...(spec.containers.length > 1 && { "kubectl.kubernetes.io/default-container": WORKLOAD_CONTAINER }),
        ...(overlayDirs.length > 0 && {
          [annotation.overlayDirs]: JSON.stringify(overlayDirs),
          [annotation.diskGb]: String(resolved.resources.diskGb),
          ...(preSave !== undefined && { [annotation.preSave]: JSON.stringify(preSave) }),
        }),
        ...identity.annotations,
      },
    },
    spec,
  };
}

/** The hashes of a workload's pod template, or why no pod can be rendered. */
type Template =
  | { readonly hash: string; readonly isolation: string }
  | { readonly hash?: undefined; readonly isolation?: undefined; readonly problem: string };

const templates = new WeakMap<Workload, Template>();

/**
 * Hash of the workload's pod template, as this version renders it: two pods with the same hash were rendered alike.
 * Undefined if no pod can be rendered.
 */
export function templateHash(workload: Workload, config: OperatorConfig): string | undefined {
  return templateOf(workload, config).hash;
}

/**
 * Hash of what isolates a pod and of the files that it saves: the runtime, the security contexts, the proxy's
 * credentials, the overlay directories and preSave. Two pods of a workload with the same hash are isolated alike. The
 * hash leaves out `network.access`, since the network policy applies to all pods of the workload at once, and the
 * allowlist, which the proxies of running pods follow. Undefined if no pod can be rendered.
 */
export function isolationHash(workload: Workload, config: OperatorConfig): string | undefined {
  return templateOf(workload, config).isolation;
}

/** Why no pod of the workload can be rendered; undefined if one can. */
export function templateProblem(workload: Workload, config: OperatorConfig): string | undefined {
  const template = templateOf(workload, config);
  return template.hash === undefined ? template.problem : undefined;
}

function templateOf(workload: Workload, config: OperatorConfig): Template {
  let found = templates.get(workload);
  if (found === undefined) {
    found = renderTemplate(workload, config);
    templates.set(workload, found);
  }
  return found;
}

function renderTemplate(workload: Workload, config: OperatorConfig): Template {
  try {
    const rendered = renderPodSpec(workload, config, { proxyUid: TEMPLATE_PROXY_UID });
    const { filesystem } = withDefaults(workload.spec);
    // The release of a pod runs the preSave that is stamped on it: a warm pod with another one is old.
    const stamped = filesystem.preSave === undefined ? "" : JSON.stringify(filesystem.preSave);
    const { runtimeClassName, securityContext, containers } = rendered;
    const isolation = {
      filesystem,
      runtimeClassName,
      securityContext,
      container: containers.find(({ name }) => name === WORKLOAD_CONTAINER)?.securityContext,
      proxy: egressRules(workload.spec)?.credentials.map(({ domain, headers }) => [
        domain.text,
        headers.map(({ value }) => value),
      ]),
    };
    return { hash: hashOf(JSON.stringify(rendered) + stamped), isolation: hashOf(JSON.stringify(isolation)) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

function renderPodSpec(
  workload: Workload,
  config: OperatorConfig,
  { restoreAs, proxyUid }: { restoreAs?: FileOwner | undefined; proxyUid: number },
): PodSpec {
  const { resources, network, health, entrypoint, runtimeClassName, filesystem } = withDefaults(workload.spec);
  const ports = [...new Set([endpointPort(workload.spec), ...network.ports])];
  const disk = `${resources.diskGb}Gi`;
  const requirements = {
    limits: { cpu: String(resources.vcpus), memory: `${resources.memoryMb}Mi`, "ephemeral-storage": disk },
    requests: {
      cpu: `${Math.max(1, Math.round((resources.vcpus * 1000) / config.cpuOvercommit))}m`,
      memory: `${Math.max(1, Math.round((resources.memoryMb * 1024) / config.memoryOvercommit))}Ki`,
      "ephemeral-storage": disk,
    },
  };
  // The tools run only while the workload does not, so they get the workload's resources.
  const tools = podTools({
    image: config.toolsImage,
    overlayDirs: filesystem.overlayDirs,
    diskGb: resources.diskGb,
    resources: requirements,
    restoreAs,
  });
  const egress = renderEgress(workload, config, proxyUid);
  const initContainers =
    egress === undefined
      ? tools.initContainers
      : shareInitContainer({
          redirect: egress.initContainer,
          tools: tools.initContainers,
          isRestored: restoreAs !== undefined,
        });
  const volumes = [...tools.volumes, ...(egress?.volumes ?? [])];
  const volumeMounts = [...tools.volumeMounts, ...(egress?.workloadMounts ?? [])];
  const own = Object.entries(entrypoint.env).map(([name, value]) => ({ name, value }));
  const given = (egress?.workloadEnv ?? []).filter(({ name }) => entrypoint.env[name] === undefined);
  return {
    restartPolicy: "Always",
    terminationGracePeriodSeconds: TERMINATION_GRACE_SECONDS,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    ...(runtimeClassName !== undefined && { runtimeClassName }),
    securityContext: { seccompProfile: { type: "RuntimeDefault" } },
    ...pullSecrets(workload, config),
    ...(initContainers.length > 0 && { initContainers }),
    ...(volumes.length > 0 && { volumes }),
    containers: [
      ...(egress === undefined ? [] : [egress.container]),
      {
        name: WORKLOAD_CONTAINER,
        image: imageOfPods(workload),
        ...(entrypoint.cmd !== undefined && { command: [entrypoint.cmd] }),
        ...(entrypoint.args !== undefined && { args: entrypoint.args }),
        ...(entrypoint.workdir !== undefined && { workingDir: entrypoint.workdir }),
        ...(volumeMounts.length > 0 && { volumeMounts }),
        env: [...given, ...own],
        ports: ports.map((containerPort) => ({ containerPort })),
        resources: requirements,
        // The claim's message shows the last lines that a failing program wrote.
        terminationMessagePolicy: "FallbackToLogsOnError",
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"] },
          ...(workload.status?.runsAsRoot !== true && { runAsNonRoot: true }),
        },
        ...(health !== undefined && probes(health, { port: ports[0] ?? 0, startTimeoutMs: config.startTimeoutMs })),
      },
    ],
  };
}

/** @throws Error if the image is not built yet: only its digest names it */
function imageOfPods(workload: Workload): string {
  const image = imageOf(workload);
  if (image === undefined) throw new Error("its image is not built yet");
  return image;
}

function pullSecrets({ spec }: Workload, { builds }: OperatorConfig): Pick<PodSpec, "imagePullSecrets"> {
  if (spec.image.dockerfile === undefined || builds?.pullSecret === undefined) return {};
  return { imagePullSecrets: [{ name: builds.pullSecret }] };
}

/**
 * The proxy's part of a pod; undefined if the workload needs no proxy. A workload that needs one is not Ready while the
 * operator has no image for it.
 */
function renderEgress(
  { metadata, spec }: Workload,
  { egress: { image } }: OperatorConfig,
  proxyUid: number,
): EgressSidecar | undefined {
  const rules = egressRules(spec);
  if (rules === undefined) return undefined;
  if (image === undefined) throw new Error(`Cannot render a pod of ${metadata.name}: there is no image for its proxy`);
  return egressSidecar({ workload: metadata.name, rules, image, proxyUid });
}

/**
 * A startup probe once a second, then the readiness probe of the workload. With the readiness probe alone, a container
 * that fails its first probe would stay unready for a whole interval. There is no liveness probe, since a restart loses
 * what the program has in memory.
 */
function probes(
  health: NonNullable<ResolvedWorkloadSpec["health"]>,
  { port, startTimeoutMs }: { port: number; startTimeoutMs: number },
): { startupProbe: Probe; readinessProbe: Probe } {
  const { httpGet, intervalSeconds, unhealthyThreshold } = health;
  const check = httpGet === undefined ? { tcpSocket: { port } } : { httpGet };
  return {
    startupProbe: {
      ...check,
      periodSeconds: 1,
      timeoutSeconds: 2,
      failureThreshold: Math.ceil(startTimeoutMs / 1000) + 60,
    },
    readinessProbe: {
      ...check,
      periodSeconds: intervalSeconds,
      timeoutSeconds: Math.min(intervalSeconds, 5),
      failureThreshold: unhealthyThreshold,
    },
  };
}
