import type { Clock } from "../../crds/client/clock.ts";
import type { Node } from "../../crds/kubernetes.ts";
import { parseReference } from "../registry/parse-reference.ts";
import { fitsNode, type Scheduled } from "./node-fit.ts";

/** Nodes can get other labels and taints, and lose images, without a word. */
const LOOK_AGAIN_MS = 600_000;
/** New nodes come in groups. */
const SHORTEST_LOOK_MS = 10_000;
/** Until a new node is ready; twice as long each time. */
const UNREADY_MS = 15_000;
const FIRST_PAUSE_MS = 30_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/: nodeStatusMaxImages */
const MOST_LISTED = 50;

const CORDONED = "node.kubernetes.io/unschedulable";

interface NodeState {
  readonly isPulled: boolean;
  /** Of the last try. */
  readonly failure?: string | undefined;
  readonly tries: number;
  /** When the state was noted, and when the next try is due, by the clock. */
  readonly at: number;
  readonly dueAt: number;
  /** Of the pod that it is of. */
  readonly uid?: string;
}

/** Which nodes have a workload's image, and which one pulls it next. */
export interface PullPlan {
  /** Differs if the image or what chooses the nodes does. */
  readonly key: string;
  readonly image: string;
  /** The nodes that may run the workload, by name. */
  states(): Iterable<readonly [node: string, state: NodeState]>;
  /** Whether all nodes have been looked at once. */
  isKnown(): boolean;
  /** The nodes that are to pull now: first those that have failed least, so that a retry holds up none of them. */
  due(): readonly string[];
  /** When a pod was last made, by the clock; 0: never. */
  startedAt: number;
  /** How a pod on the node has ended; the second time for the same pod it is ignored. */
  note(node: string, result: { uid: string; failure?: string }): void;
  /** The nodes have changed. */
  look(): void;
  isLookDue(): boolean;
  /** Takes in all nodes: `see` for each, then `end`, which forgets those that were not seen. */
  beginLook(): { see(node: Node): void; end(): void };
  /** Milliseconds until the next try or look. */
  waitMs(): number;
}

export function createPullPlan(of: {
  key: string;
  image: string;
  /** What chooses the nodes. */
  scheduled: Scheduled;
  clock: Clock;
}): PullPlan {
  const { key, image, scheduled, clock } = of;
  const name = fullName(image);
  let known = new Map<string, NodeState>();
  let isKnown = false;
  let unreadyMs = UNREADY_MS;
  let lookAt = Number.NEGATIVE_INFINITY;
  let lookedAt = Number.NEGATIVE_INFINITY;

  return {
    key,
    image,
    states: () => known,
    isKnown: () => isKnown,
    startedAt: 0,
    due: () =>
      [...known]
        .filter(([, { isPulled, dueAt }]) => !isPulled && dueAt <= clock.now())
        .sort(([, a], [, b]) => a.tries - b.tries || a.dueAt - b.dueAt)
        .map(([node]) => node),
    note(node, { uid, failure }) {
      const before = known.get(node);
      if (before === undefined || (uid !== "" && before.uid === uid)) return;
      const at = clock.now();
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** before.tries, LONGEST_PAUSE_MS);
      known.set(
        node,
        failure === undefined
          ? { isPulled: true, tries: 0, at, dueAt: at, uid }
          : { isPulled: false, failure, tries: before.tries + 1, at, dueAt: at + pauseMs, uid },
      );
    },
    look() {
      unreadyMs = UNREADY_MS;
      lookAt = Math.min(lookAt, lookedAt + SHORTEST_LOOK_MS);
    },
    isLookDue: () => lookAt <= clock.now(),
    beginLook() {
      lookedAt = clock.now();
      lookAt = lookedAt + LOOK_AGAIN_MS;
      const seen = new Map<string, NodeState>();
      let isOneUnready = false;
      return {
        see(node) {
          if (!fitsNode(scheduled, node)) {
            isOneUnready ||= fitsNode(scheduled, whenReady(node));
            return;
          }
          const listed = node.status?.images ?? [];
          const at = clock.now();
          const before = known.get(node.metadata.name) ?? { isPulled: false, tries: 0, at, dueAt: at };
          const isListed = listed.some(({ names }) => names?.includes(name));
          // A node lists new images after some minutes, and never more than 50. An image may be deleted to free space.
          const isGone = before.isPulled && listed.length < MOST_LISTED && before.at + LOOK_AGAIN_MS <= at;
          if (isListed) seen.set(node.metadata.name, { isPulled: true, tries: 0, at, dueAt: at });
          else seen.set(node.metadata.name, isGone ? { isPulled: false, tries: 0, at, dueAt: at } : before);
        },
        end() {
          isKnown = true;
          known = new Map([...seen].sort(([a], [b]) => (a < b ? -1 : 1)));
          // Nothing tells of a node that becomes ready but its status, which changes all the time.
          if (!isOneUnready) return;
          lookAt = Math.min(lookAt, lookedAt + unreadyMs);
          unreadyMs = Math.min(unreadyMs * 2, LOOK_AGAIN_MS);
        },
      };
    },
    waitMs() {
      const due = [...known.values()].flatMap(({ isPulled, dueAt }) => (isPulled ? [] : [dueAt]));
      // A pod that ends starts the next run earlier.
      const next = Math.min(lookAt, ...due.filter((at) => at > clock.now()));
      return Math.max(SHORTEST_LOOK_MS, next - clock.now());
    },
  };
}

/** The node without the taints that it has until it is ready. */
function whenReady(node: Node): Node {
  const taints = node.spec?.taints?.filter(
    ({ key }) => key === CORDONED || !/^node(\.cloudprovider)?\.kubernetes\.io\//.test(key),
  );
  return { ...node, spec: { ...node.spec, ...(taints !== undefined && { taints }) } };
}

/** As nodes list it. */
function fullName(image: string): string {
  const { host, repository, tag, digest } = parseReference(image);
  return digest === undefined ? `${host}/${repository}:${tag}` : `${host}/${repository}@${digest}`;
}
