import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { useOf } from "./quota-room.ts";

/** Warm pods end again for a pod that has still no node so long after the last ones. */
const AGAIN_MS = 30_000;
/** Then something else keeps the pod from those nodes. */
const MOST_TRIES = 3;
const MOST_PODS = 32;

/**
 * Ends warm pods where a claim's pod finds no node with enough left. The scheduler cannot do that: it would have to be
 * told by a lower priority, which a pod keeps when a claim takes it, and then tenants would be preempted, too.
 */
export interface NodeRoom {
  /** Whether pools start no pods, which could take the place before the claim's pod. */
  isHeld(): boolean;
  /**
   * The warm pods to end.
   *
   * @param stuck the pods of claims that no node can take
   * @param spare pods that no claim has, in the order in which they are to end
   */
  plan(stuck: Iterable<Pod>, spare: readonly Pod[]): Pod[];
}

export function createNodeRoom(clock: Clock = steadyClock): NodeRoom {
  /** By the uid of a claim's pod. */
  const tried = new Map<string, { readonly at: number; readonly times: number }>();
  const isRecent = ({ at }: { at: number }): boolean => clock.now() - at < AGAIN_MS;

  return {
    isHeld: () => [...tried.values()].some(isRecent),
    plan(stuck, spare) {
      const pods = new Map([...stuck].map((pod) => [pod.metadata.uid ?? "", pod]));
      for (const uid of tried.keys()) if (!pods.has(uid)) tried.delete(uid);
      const left = new Set(spare);
      const groups = groupsOf(spare);
      const hopeless = new Set<string>();
      const given: Pod[] = [];
      for (const [uid, pod] of pods) {
        if (given.length >= MOST_PODS) break;
        const last = tried.get(uid);
        if (last !== undefined && (isRecent(last) || last.times >= MOST_TRIES)) continue;
        const requirements = requirementsOf(pod);
        const alike = JSON.stringify([requirements, pod.spec.containers.map(({ resources }) => resources?.requests)]);
        if (hopeless.has(alike)) continue;
        const group = groups.get(requirements);
        const chosen = group && fewestOnOneNode(pod, group.onNodes, left);
        if (group === undefined || chosen === undefined) {
          hopeless.add(alike);
          continue;
        }
        tried.set(uid, { at: clock.now(), times: (last?.times ?? 0) + 1 });
        // Those without a node would come first: they have waited longer.
        for (const one of [...chosen, ...group.waiting]) if (left.delete(one)) given.push(one);
      }
      return given;
    },
  };
}

/** Index of the claims' pods for which no node has enough left. */
export function stuckIndex(pod: Pod): string | undefined {
  const { annotations, deletionTimestamp } = pod.metadata;
  if (annotations?.[annotation.claimUid] === undefined || deletionTimestamp !== undefined) return undefined;
  return shortOnNodes(pod).length > 0 ? "" : undefined;
}

/** The resources that are short by the words of the scheduler; none if the pod has a node. */
function shortOnNodes({ status }: Pod): string[] {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status !== "False") return [];
  const { message = "" } = scheduled;
  const resources = [...message.matchAll(/Insufficient ([a-z0-9./-]*[a-z0-9])/g)].map(([, name = ""]) => name);
  return message.includes("Too many pods") ? [...resources, "pods"] : resources;
}

/**
 * The fewest pods of one node whose end leaves enough for the pod. What the node has left beside them is not known, so
 * they have to use as much as the pod. Nodes that run pods with the same requirements can run this one, too.
 */
function fewestOnOneNode(
  pod: Pod,
  onNodes: ReadonlyMap<string, readonly Pod[]>,
  left: ReadonlySet<Pod>,
): Pod[] | undefined {
  const { affinity, topologySpreadConstraints = [] } = pod.spec;
  const isSpread = topologySpreadConstraints.some(({ whenUnsatisfiable }) => whenUnsatisfiable === "DoNotSchedule");
  // Where other pods run decides as well.
  if (isSpread || (affinity?.podAffinity ?? affinity?.podAntiAffinity) !== undefined) return undefined;
  const short = shortOnNodes(pod);
  let fewest: Pod[] | undefined;
  for (const pods of onNodes.values()) {
    const chosen: Pod[] = [];
    const isEnough = () => short.every((resource) => sumOf(chosen, resource) >= requestOf(pod, resource));
    for (const one of pods) {
      if (isEnough()) break;
      if (left.has(one)) chosen.push(one);
    }
    if (isEnough() && (fewest === undefined || chosen.length < fewest.length)) fewest = chosen;
  }
  return fewest;
}

interface Group {
  readonly onNodes: Map<string, Pod[]>;
  /** Those without a node. */
  readonly waiting: Pod[];
}

/** The pods by what decides on their nodes. */
function groupsOf(pods: readonly Pod[]): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const pod of pods) {
    const key = requirementsOf(pod);
    const group = groups.get(key) ?? { onNodes: new Map<string, Pod[]>(), waiting: [] };
    groups.set(key, group);
    const { nodeName } = pod.spec;
    const there = nodeName === undefined ? group.waiting : (group.onNodes.get(nodeName) ?? []);
    there.push(pod);
    if (nodeName !== undefined) group.onNodes.set(nodeName, there);
  }
  return groups;
}

function sumOf(pods: readonly Pod[], resource: string): number {
  return pods.reduce((sum, pod) => sum + requestOf(pod, resource), 0);
}

function requestOf(pod: Pod, resource: string): number {
  return useOf(pod, resource === "pods" ? resource : `requests.${resource}`);
}

/** What decides on which nodes a pod may run, beside room; as text, to compare. */
function requirementsOf({ spec }: Pod): string {
  const { nodeSelector, tolerations, affinity, schedulerName, runtimeClassName, volumes = [] } = spec;
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const bound = volumes.flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
  return JSON.stringify([nodeSelector, tolerations, required, schedulerName, runtimeClassName, bound]);
}
