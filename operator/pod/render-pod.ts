import { createHash } from "node:crypto";
import { programContainer } from "../../crds/claims/claim-pod.ts";
import { endpointPort, withDefaults } from "../../crds/defaults.ts";
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
import { ANSWER_SECONDS, healthProbe } from "../launcher/health-check.ts";
import { LAUNCHER_FOLDER, launchCommand, preStopHook, startsOnClaim } from "../launcher/launch-command.ts";
import { programToLaunch } from "../launcher/program-to-launch.ts";
import { literally } from "../literally.ts";
import { podTools } from "../snapshots/pods/pod-tools.ts";
import { type Placement, placedAt, schedulingOf } from "./scheduling.ts";
import { startTimeoutMs } from "./start-timeout.ts";
import { variablesOf, volumesOf } from "./volumes.ts";

/** The name, labels and annotations that distinguish a pod from others of the same workload. */
export interface PodIdentity {
  name: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

/** Grace period of a pod with nothing to save: a program that ignores SIGTERM does not hold it for long. */
export const END_GRACE_SECONDS = 10;

/** From inside, the check itself ends the command before. */
const COMMAND_SECONDS = ANSWER_SECONDS + 1;

/** A claim waits that long at most for the probe of a program that has become healthy late. */
const LONGEST_INTERVAL_SECONDS = 60;

/** The user and group that files are restored as. */
export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Renders the hardened pod of a workload.
 *
 * @param restoreAs if set, the pod waits for restored files before the workload starts
 * @param placement not part of the template @default where the workload says
 */
export function renderPod(
  workload: Workload,
  identity: PodIdentity,
  config: OperatorConfig,
  { restoreAs, placement = {} }: { restoreAs?: FileOwner | undefined; placement?: Placement } = {},
): Pod {
  const spec = {
    ...renderPodSpec(workload, config, { restoreAs, proxyUid: pickProxyUid() }),
    ...placedAt(workload, placement),
  };
  const resolved = withDefaults(workload.spec);
  const { overlayDirs, preSave } = resolved.filesystem;
  const { onClaim } = resolved.entrypoint;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: identity.name,
      namespace: config.namespace,
      labels: {
        ...resolved.podLabels,
        [label.managed]: "true",
        [label.workload]: workload.metadata.name,
        ...identity.labels,
      },
      annotations: {
        ...resolved.podAnnotations,
        [annotation.templateHash]: templateHash(workload, config) ?? "",
        [annotation.isolation]: isolationHash(workload, config) ?? "",
        [annotation.workloadUid]: workload.metadata.uid ?? "",
        [annotation.idleAction]: resolved.idle.action,
        ...(resolved.idle.timeoutSeconds !== undefined && {
          [annotation.idleTimeoutSeconds]: String(resolved.idle.timeoutSeconds),
        }),
        ...(resolved.idle.countBackgroundProcesses && { [annotation.countBackground]: "true" }),
        // Without this, kubectl would use the first container, which is the proxy.
        ...(spec.containers.length > 1 && { "kubectl.kubernetes.io/default-container": WORKLOAD_CONTAINER }),
        ...(overlayDirs.length > 0 && {
          [annotation.overlayDirs]: JSON.stringify(overlayDirs),
          [annotation.diskGb]: String(resolved.resources.diskGb),
          ...(preSave !== undefined && { [annotation.preSave]: JSON.stringify(preSave) }),
        }),
        ...(onClaim !== undefined && { [annotation.onClaim]: JSON.stringify(onClaim) }),
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
 * Hash of what isolates a pod, of the files that it saves and of how it is told of a claim: the runtime, the account,
 * the nodes that it may run on, the security contexts, the proxy's credentials, the Secrets and other objects that its
 * program can read, the overlay directories, preSave and onClaim. Two pods of a workload with the same hash are alike
 * in these. The hash leaves out `network.access`, since the network policy applies to all pods of the workload at once,
 * and the allowlist, which the proxies of running pods follow. Undefined if no pod can be rendered.
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
    const { filesystem, entrypoint, volumes, podLabels, podAnnotations } = withDefaults(workload.spec);
    const { overlayDirs, preSave } = filesystem;
    const { onClaim } = entrypoint;
    // A warm pod whose claim or release would not run them is an old one.
    const hooks = [preSave, onClaim].map((hook) => (hook === undefined ? "" : JSON.stringify(hook)));
    const metadata = Object.entries({ podLabels, podAnnotations }).map(([field, given]) =>
      Object.keys(given).length === 0 ? "" : `${field}${JSON.stringify(given)}`,
    );
    const stamped = [...hooks, ...metadata].join("");
    const { runtimeClassName, securityContext, nodeSelector, tolerations, affinity, serviceAccountName } = rendered;
    const isolation = {
      filesystem: { overlayDirs, preSave },
      // A pod whose program has started for no one is none for a claim that the program is to start with.
      ...(startsOnClaim(rendered) && { start: "OnClaim" }),
      ...(onClaim !== undefined && { onClaim }),
      runtimeClassName,
      serviceAccountName,
      securityContext,
      container: programContainer(rendered)?.securityContext,
      proxy: egressRules(workload.spec)?.credentials.map(({ domain, headers }) => [
        domain.text,
        headers.map(({ value }) => value),
      ]),
      // Tenants may have nodes of their own.
      ...{ nodeSelector, tolerations, nodeAffinity: affinity?.nodeAffinity },
      // What the program can read.
      ...(volumes.length > 0 && { volumes: volumesOf(volumes) }),
      ...(entrypoint.envFrom.length > 0 && { envFrom: variablesOf(entrypoint.envFrom) }),
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
  const resolved = withDefaults(workload.spec);
  const { resources, network, entrypoint, runtimeClassName, filesystem, serviceAccountName } = resolved;
  const ports = [...new Set([endpointPort(workload.spec), ...network.ports])];
  const disk = `${resources.diskGb}Gi`;
  const { vcpus, memoryMb, requests } = resources;
  const milliCpus = requests?.milliCpus ?? (vcpus * 1000) / config.cpuOvercommit;
  const memoryKi =
    requests?.memoryMb === undefined ? (memoryMb * 1024) / config.memoryOvercommit : requests.memoryMb * 1024;
  const requirements = {
    limits: {
      cpu: Number.isInteger(vcpus) ? String(vcpus) : `${Math.round(vcpus * 1000)}m`,
      memory: `${memoryMb}Mi`,
      "ephemeral-storage": disk,
    },
    requests: {
      cpu: `${Math.max(1, Math.round(milliCpus))}m`,
      memory: `${Math.max(1, Math.round(memoryKi))}Ki`,
      "ephemeral-storage": disk,
    },
  };
  const extended = Object.fromEntries(
    Object.entries(resources.extended ?? {}).map(([name, count]) => [name, String(count)]),
  );
  const launched = programToLaunch(workload);
  // The tools run when the workload does not, so they may have what it has.
  const tools = podTools({
    launcherFolder: launched === undefined && entrypoint.onClaim === undefined ? undefined : `/${LAUNCHER_FOLDER}`,
    isAsked: workload.spec.tools,
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
  const platform = volumesOf(resolved.volumes);
  const volumes = [...tools.volumes, ...(egress?.volumes ?? []), ...platform.volumes];
  const volumeMounts = [...tools.volumeMounts, ...(egress?.workloadMounts ?? []), ...platform.volumeMounts];
  const pulledWith = pullSecretsOf(workload, config.builds);
  const own = Object.entries(entrypoint.env).map(([name, value]) => ({ name, value }));
  const given = (egress?.workloadEnv ?? []).filter(({ name }) => entrypoint.env[name] === undefined);
  return {
    restartPolicy: "Always",
    // The launcher waits that long for the files to be saved when somebody else ends the pod.
    terminationGracePeriodSeconds: launched?.keepsFiles === true ? filesystem.saveGraceSeconds : END_GRACE_SECONDS,
    ...(serviceAccountName !== undefined && { serviceAccountName }),
    automountServiceAccountToken: serviceAccountName !== undefined,
    enableServiceLinks: false,
    ...(runtimeClassName !== undefined && { runtimeClassName }),
    securityContext: { seccompProfile: { type: "RuntimeDefault" } },
    ...(pulledWith !== undefined && { imagePullSecrets: pulledWith.map((name) => ({ name })) }),
    ...schedulingOf(workload),
    ...(initContainers.length > 0 && { initContainers }),
    ...(volumes.length > 0 && { volumes }),
    containers: [
      ...(egress === undefined ? [] : [egress.container]),
      {
        name: WORKLOAD_CONTAINER,
        image: imageOfPods(workload, launched?.digest),
        ...(workload.spec.image.pullPolicy !== undefined && { imagePullPolicy: workload.spec.image.pullPolicy }),
        ...(launched !== undefined
          ? { command: launchCommand(launched) }
          : {
              ...(entrypoint.cmd !== undefined && { command: [entrypoint.cmd] }),
              ...(entrypoint.args !== undefined && { args: entrypoint.args }),
            }),
        ...(entrypoint.workdir !== undefined && { workingDir: entrypoint.workdir }),
        ...(volumeMounts.length > 0 && { volumeMounts }),
        ...(launched !== undefined && { lifecycle: { preStop: preStopHook() } }),
        ...(entrypoint.envFrom.length > 0 && { envFrom: variablesOf(entrypoint.envFrom) }),
        env: [...given, ...own],
        ports: ports.map((containerPort) => ({ containerPort, ...nameOfPort(containerPort, network.portNames) })),
        resources: {
          limits: { ...requirements.limits, ...extended },
          requests: { ...requirements.requests, ...extended },
        },
        // The claim's message shows the last lines that a failing program wrote.
        terminationMessagePolicy: "FallbackToLogsOnError",
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"] },
          ...(workload.status?.runsAsRoot !== true && { runAsNonRoot: true }),
        },
        ...probesOf(workload, {
          startsOnClaim: launched?.startsOnClaim === true,
          limitMs: startTimeoutMs(workload, config),
        }),
      },
    ],
  };
}

function nameOfPort(port: number, names: Readonly<Record<string, number>>): { name?: string } {
  const [name] = Object.entries(names).find(([, named]) => named === port) ?? [];
  return name === undefined ? {} : { name };
}

/** The image of the workload's pods, as they name it. */
export function imageToPull(workload: Workload): string {
  return imageOfPods(workload, programToLaunch(workload)?.digest);
}

/** One that is built is known by its digest alone, so there is no pod before it is there. */
function imageOfPods(workload: Workload, digest: string | undefined): string {
  const image = imageOf(workload);
  if (image === undefined) throw new Error("its image is not built yet");
  return digest === undefined || image.includes("@") ? image : `${image}@${digest}`;
}

/** Names of the Secrets that a workload's pods pull with; undefined for those of their ServiceAccount. */
export function pullSecretsOf({ spec }: Workload, builds: OperatorConfig["builds"]): string[] | undefined {
  const { dockerfile, pullSecrets = [] } = spec.image;
  if (dockerfile !== undefined) return builds?.pullSecret === undefined ? undefined : [builds.pullSecret];
  return pullSecrets.length === 0 ? undefined : pullSecrets.map(({ name }) => name);
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
 *
 * A program that starts when its pod is claimed is checked from inside the pod: until then, its launcher is what is
 * healthy.
 */
function probesOf(
  { spec }: Workload,
  { startsOnClaim, limitMs }: { startsOnClaim: boolean; limitMs: number },
): { startupProbe?: Probe; readinessProbe?: Probe } {
  const { health } = withDefaults(spec);
  const isChecked = health !== undefined && health.readyWhen === "Healthy";
  if (!isChecked && !startsOnClaim) return {};
  const { httpGet, exec, tcpSocket = { port: endpointPort(spec) } } = health ?? {};
  const own =
    httpGet !== undefined
      ? { httpGet }
      : exec !== undefined
        ? { exec: { command: exec.command.map(literally) } }
        : { tcpSocket };
  const inside = isChecked ? (httpGet ?? exec ?? tcpSocket) : { isUnproven: health !== undefined };
  const check = startsOnClaim ? healthProbe(inside) : own;
  const startupProbe = {
    ...check,
    periodSeconds: 1,
    timeoutSeconds: exec === undefined ? 2 : COMMAND_SECONDS,
    failureThreshold: Math.ceil(limitMs / 1000) + 60,
  };
  // A launcher that has started stays; more looks at it would only cost the node an exec each.
  if (!isChecked) return { startupProbe };
  const { intervalSeconds, unhealthyThreshold } = health;
  return {
    startupProbe,
    readinessProbe: {
      ...check,
      periodSeconds: startsOnClaim ? Math.min(intervalSeconds, LONGEST_INTERVAL_SECONDS) : intervalSeconds,
      timeoutSeconds: exec === undefined ? Math.min(intervalSeconds, 5) : COMMAND_SECONDS,
      failureThreshold: unhealthyThreshold,
    },
  };
}
