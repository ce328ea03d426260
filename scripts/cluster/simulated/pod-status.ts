import type { Behaviour } from "./behaviour.ts";
import { type Container, hasCondition, type Pod } from "./pod.ts";

export interface StatusStep {
  /** Time after the step before it. */
  readonly afterMs: number;
  /** Patched into the pod's status. */
  readonly status: Record<string, unknown>;
}

export interface StatusStepsOptions {
  behaviour: Behaviour;
  podIP: string;
  hostIP: string;
  readyAfterMs: number;
}

/** Time between the states that a kubelet would pass through in tens of seconds. */
const BACK_OFF_MS = 250;
const SLOW_START_MS = 3000;

/** Returns what a kubelet would report of a pod, one patch a step, until it comes to rest. */
export function statusSteps(pod: Pod, options: StatusStepsOptions): StatusStep[] {
  const { behaviour } = options;
  const afterMs = behaviour.readyAfterMs ?? options.readyAfterMs;
  const report = (phase: string, culprit: ContainerState, more: Record<string, unknown> = {}): StatusStep["status"] =>
    podStatus(pod, { ...options, phase, culprit, more });
  const step = (...parameters: Parameters<typeof report>): StatusStep => ({ afterMs, status: report(...parameters) });
  const later = (...parameters: Parameters<typeof report>): StatusStep => ({
    afterMs: BACK_OFF_MS,
    status: report(...parameters),
  });
  switch (behaviour.behaviour) {
    case "normal":
    case "slow-stop":
      return [step("Running", { kind: "running", ready: true })];
    case "slow-start":
      return [
        {
          afterMs: behaviour.readyAfterMs ?? SLOW_START_MS,
          status: report("Running", { kind: "running", ready: true }),
        },
      ];
    case "never-ready":
      return [step("Running", { kind: "running", ready: false })];
    case "image-pull-back-off":
      return [
        step("Pending", {
          kind: "waiting",
          reason: "ErrImagePull",
          message: imageMessage("failed to pull and unpack image"),
        }),
        later("Pending", {
          kind: "waiting",
          reason: "ImagePullBackOff",
          message: imageMessage("Back-off pulling image"),
        }),
      ];
    case "run-as-root-refused":
      return [step("Pending", { kind: "waiting", reason: "CreateContainerConfigError", message: rootMessage(pod) })];
    case "crash-loop":
      if (pod.spec.restartPolicy === "Never")
        return [step("Failed", { kind: "terminated", exitCode: 1, restartCount: 0 })];
      return [
        step("Running", { kind: "terminated", exitCode: 1, restartCount: 0 }),
        ...[1, 2, 3].map((restartCount) => later("Running", { kind: "crash-loop", exitCode: 1, restartCount })),
      ];
    // Without a probe a pod is ready as soon as its program runs.
    case "short-lived":
      return [
        step("Running", { kind: "running", ready: true }),
        ...[1, 2, 3].map((restartCount) => later("Running", { kind: "crash-loop", exitCode: 1, restartCount })),
      ];
    case "completed":
      return [step("Succeeded", { kind: "terminated", exitCode: 0, restartCount: 0 })];
    case "evicted":
      return [
        step(
          "Failed",
          { kind: "terminated", exitCode: 137, restartCount: 0 },
          { reason: "Evicted", message: "The node was low on resource: memory." },
        ),
      ];
    // Until there is another one the kubelet goes on showing the address of the last, which is given back.
    case "no-sandbox":
      return [step("Running", { kind: "terminated", exitCode: 137, restartCount: 0 })];
    case "unschedulable":
      return [];
    default: {
      const never: never = behaviour.behaviour;
      throw new Error(`Cannot simulate the behaviour ${JSON.stringify(never)}`);
    }
  }
}

function imageMessage(beginning: string): (container: Container) => string {
  return ({ image }) => `${beginning} "${image}"${beginning.startsWith("failed") ? ": not found" : ""}`;
}

function rootMessage({ metadata }: Pod): (container: Container) => string {
  return ({ name }) =>
    `container has runAsNonRoot and image will run as root (pod: "${metadata.name}_${metadata.namespace}(${metadata.uid})", container: ${name})`;
}

function podStatus(
  pod: Pod,
  options: StatusStepsOptions & { phase: string; culprit: ContainerState; more: Record<string, unknown> },
): Record<string, unknown> {
  const { culprit, behaviour } = options;
  const now = new Date().toISOString().replace(/\.\d+/, "");
  const init = pod.spec.initContainers ?? [];
  const culpritName = behaviour.container ?? pod.spec.containers[0]?.name;
  const stuckAt = init.findIndex(({ name }) => name === culpritName);
  const initialized = stuckAt === -1 || culprit.kind === "running";
  const containersReady = culprit.kind === "running" && culprit.ready;
  const ready =
    containersReady && (pod.spec.readinessGates ?? []).every(({ conditionType }) => hasCondition(pod, conditionType));
  const condition = (type: string, holds: boolean, reason: string): Record<string, unknown> => ({
    type,
    status: holds ? "True" : "False",
    lastTransitionTime: now,
    // A strategic merge keeps what is not mentioned, so a reason that no longer holds is taken away.
    reason: holds ? null : reason,
  });
  const running: ContainerState = { kind: "running", ready: true };
  const creating: ContainerState = { kind: "waiting", reason: "PodInitializing" };
  return {
    phase: initialized ? options.phase : "Pending",
    hostIP: options.hostIP,
    podIP: options.podIP,
    // A strategic merge would keep the address of before beside it.
    podIPs: [{ ip: options.podIP }, { $patch: "replace" }],
    startTime: now,
    conditions: [
      condition("PodReadyToStartContainers", behaviour.behaviour !== "no-sandbox", "SandboxChanged"),
      condition("Initialized", initialized, "ContainersNotInitialized"),
      condition("ContainersReady", containersReady, "ContainersNotReady"),
      condition("Ready", ready, containersReady ? "ReadinessGatesNotReady" : "ContainersNotReady"),
    ],
    ...(init.length > 0 && {
      initContainerStatuses: init.map((container, index) => {
        if (container.name === culpritName && culprit.kind !== "running")
          return containerStatus(container, culprit, now);
        if (!initialized && index > stuckAt) return containerStatus(container, creating, now);
        if (container.restartPolicy === "Always") return containerStatus(container, running, now);
        return containerStatus(container, { kind: "terminated", exitCode: 0, restartCount: 0 }, now);
      }),
    }),
    containerStatuses: pod.spec.containers.map((container) => {
      if (container.name === culpritName) return containerStatus(container, culprit, now);
      return containerStatus(container, initialized ? running : creating, now);
    }),
    ...options.more,
  };
}

/** What a container is doing. */
type ContainerState =
  | { readonly kind: "running"; readonly ready: boolean }
  | { readonly kind: "waiting"; readonly reason: string; readonly message?: (container: Container) => string }
  | { readonly kind: "terminated"; readonly exitCode: number; readonly restartCount: number }
  | { readonly kind: "crash-loop"; readonly exitCode: number; readonly restartCount: number };

/**
 * Returns a container's entry in a pod's status.
 *
 * @param now RFC 3339
 */
function containerStatus(container: Container, state: ContainerState, now: string): Record<string, unknown> {
  const image = container.image ?? "";
  const started = { containerID: `simulated://${container.name}`, imageID: `${image}@simulated` };
  const common = {
    name: container.name,
    image,
    imageID: "",
    ready: false,
    started: false,
    restartCount: 0,
    lastState: {},
  };
  // What the program printed last, which a kubelet tells under FallbackToLogsOnError.
  const lastWords = container.env?.find(({ name }) => name === "LAST_WORDS")?.value;
  const terminated = (exitCode: number): Record<string, unknown> => ({
    exitCode,
    reason: exitCode === 0 ? "Completed" : "Error",
    startedAt: now,
    finishedAt: now,
    containerID: started.containerID,
    ...(exitCode !== 0 && lastWords !== undefined && { message: lastWords }),
  });
  switch (state.kind) {
    case "running":
      return { ...common, ...started, ready: state.ready, started: true, state: { running: { startedAt: now } } };
    case "waiting": {
      const message = state.message?.(container);
      return { ...common, state: { waiting: { reason: state.reason, ...(message && { message }) } } };
    }
    case "terminated":
      return {
        ...common,
        ...started,
        ready: state.exitCode === 0,
        restartCount: state.restartCount,
        state: { terminated: terminated(state.exitCode) },
      };
    case "crash-loop":
      return {
        ...common,
        ...started,
        restartCount: state.restartCount,
        lastState: { terminated: terminated(state.exitCode) },
        state: {
          waiting: {
            reason: "CrashLoopBackOff",
            message: `back-off 10s restarting failed container=${container.name}`,
          },
        },
      };
  }
}
