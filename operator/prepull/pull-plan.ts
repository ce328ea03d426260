import type { Clock } from "../../crds/client/clock.ts";
import type { Node } from "../../crds/kubernetes.ts";
import { parseReference } from "../registry/parse-reference.ts";
import { fitsNode, type Scheduled } from "./node-fit.ts";

/** Nodes can get other labels and taints, and lose images, without a word. */
const LOOK_AGAIN_MS = 600_000;
/** New nodes come in groups. */
const SHORTEST_LOOK_MS = 10_000;
const FIRST_PAUSE_MS = 30_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/: nodeStatusMaxImages */
const MOST_LISTED = 50;

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
  /** The nodes that are to pull now. */
  due(): Iterable<string>;
  /** How a pod on the node has ended; the second time for the same pod it is ignored. */
  note(node: string, result: { uid: string; failure?: string }): void;
  /** The nodes have changed. */
  look(): void;
  isLookDue(): boolean;
  /** Takes in all nodes: `see` for each, then `end`, which forgets those that were not seen. */
  beginLook(): { see(node: Node, scheduled: Scheduled): void; end(): void };
  /** Milliseconds until the next try or look. */
  waitMs(): number;
}

export function createPullPlan({ key, image, clock }: { key: string; image: string; clock: Clock }): PullPlan {
  const name = fullName(image);
  let known = new Map<string, NodeState>();
  let lookAt = Number.NEGATIVE_INFINITY;
  let lookedAt = Number.NEGATIVE_INFINITY;

  return {
    key,
    image,
    states: () => known,
    *due() {
      for (const [node, { isPulled, dueAt }] of known) if (!isPulled && dueAt <= clock.now()) yield node;
    },
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
      lookAt = Math.min(lookAt, lookedAt + SHORTEST_LOOK_MS);
    },
    isLookDue: () => lookAt <= clock.now(),
    beginLook() {
      lookedAt = clock.now();
      lookAt = lookedAt + LOOK_AGAIN_MS;
      const seen = new Map<string, NodeState>();
      return {
        see(node, scheduled) {
          if (!fitsNode(scheduled, node)) return;
          const listed = node.status?.images ?? [];
          const at = clock.now();
          const before = known.get(node.metadata.name) ?? { isPulled: false, tries: 0, at, dueAt: at };
          const isListed = listed.some(({ names = [] }) => names.includes(name));
          // A node lists new images after some minutes, and never more than 50. An image may be deleted to free space.
          const isGone = before.isPulled && listed.length < MOST_LISTED && before.at + LOOK_AGAIN_MS <= at;
          if (isListed) seen.set(node.metadata.name, { isPulled: true, tries: 0, at, dueAt: at });
          else seen.set(node.metadata.name, isGone ? { isPulled: false, tries: 0, at, dueAt: at } : before);
        },
        end() {
          known = new Map([...seen].sort(([a], [b]) => (a < b ? -1 : 1)));
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

/** As nodes list it. */
function fullName(image: string): string {
  const { host, repository, tag, digest } = parseReference(image);
  return digest === undefined ? `${host}/${repository}:${tag}` : `${host}/${repository}@${digest}`;
}
