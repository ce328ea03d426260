import type { Container, Pod } from "./pod.ts";

export const BEHAVIOUR_ANNOTATION = "simulated.tenancy.dev/behaviour";

/** How a simulated pod can fail to start, run or stop. */
export const BEHAVIOURS = [
  "normal",
  "slow-start",
  "slow-stop",
  "never-ready",
  "image-pull-back-off",
  "crash-loop",
  "short-lived",
  "run-as-root-refused",
  "unschedulable",
  "completed",
  "evicted",
  "no-sandbox",
] as const;

export type BehaviourName = (typeof BEHAVIOURS)[number];

export interface Behaviour {
  readonly behaviour: BehaviourName;
  readonly readyAfterMs?: number;
  readonly stopAfterMs?: number;
  /** The container that misbehaves; the first one unless it is named or its image says so. */
  readonly container?: string;
}

const BY_IMAGE: Readonly<Record<string, BehaviourName>> = {
  missing: "image-pull-back-off",
  crash: "crash-loop",
  "short-lived": "short-lived",
  root: "run-as-root-refused",
  "never-ready": "never-ready",
  "slow-start": "slow-start",
  "slow-stop": "slow-stop",
  completed: "completed",
  unschedulable: "unschedulable",
};

/**
 * Returns the behaviour of a pod: that of its annotation (a word, or JSON of a Behaviour), else that of its images'
 * names (such as `simulated/missing:1`), else the normal one.
 */
export function behaviourOf(pod: Pod): Behaviour {
  const annotation = pod.metadata.annotations?.[BEHAVIOUR_ANNOTATION];
  if (annotation) return parseAnnotation(annotation);
  for (const container of [...(pod.spec.initContainers ?? []), ...pod.spec.containers]) {
    const word = /(?:^|\/)simulated\/([a-z-]+)(?:[:@]|$)/.exec(container.image ?? "")?.[1];
    const behaviour = word === undefined ? undefined : BY_IMAGE[word];
    if (behaviour === undefined) continue;
    if (behaviour === "run-as-root-refused" && !mustNotRunAsRoot(pod, container)) continue;
    return { behaviour, container: container.name };
  }
  return { behaviour: "normal" };
}

function parseAnnotation(annotation: string): Behaviour {
  const parsed = annotation.startsWith("{") ? (JSON.parse(annotation) as Behaviour) : { behaviour: annotation };
  if (!BEHAVIOURS.includes(parsed.behaviour as BehaviourName)) {
    throw new Error(`Cannot simulate the behaviour "${parsed.behaviour}": use one of ${BEHAVIOURS.join(", ")}`);
  }
  return parsed as Behaviour;
}

/** Whether the kubelet refuses an image whose user is root. The container's setting overrides the pod's. */
function mustNotRunAsRoot(pod: Pod, container: Container): boolean {
  const user = container.securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser;
  const nonRoot = container.securityContext?.runAsNonRoot ?? pod.spec.securityContext?.runAsNonRoot;
  return nonRoot === true && (user === undefined || user === 0);
}
