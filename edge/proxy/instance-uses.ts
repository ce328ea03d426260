import type { ClaimKey } from "../../crds/claims/claim-key.ts";
import type { Clock } from "../../crds/client/clock.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { createDeferred, type Deferred, linkSignals, sleep, startDeadline } from "../../crds/waits.ts";
import type { Activity } from "../activity.ts";
import type { Stop } from "./forward.ts";
import { errorAnswer, type LocalAnswer } from "./http/local-answer.ts";
import { createMembers, type Members } from "./members.ts";
import type { AwakePod } from "./wake/find-awake.ts";

/** One request at a pod, or one open WebSocket. */
export interface InstanceUse {
  /** From now on only the data that goes over it counts as use of the pod. */
  becomesSocket(): void;
  onTraffic(): void;
  /**
   * Begins to make sure that a release of the instance waits for this request, for one that may change something.
   */
  keep(): void;
  /**
   * Whether what the request has changed is in the files that a release saves, as far as the operator waits for it;
   * at once where that is known.
   */
  isKept(): true | Promise<boolean>;
  end(): void;
}

/** Who uses which pod at present. */
export interface InstanceUses {
  /** @param stop ends the request, with an answer where none has begun */
  begin(pod: AwakePod, key: ClaimKey, stop: Stop): InstanceUse;
  /**
   * Ends what is under way at a pod that is gone, or no longer has the address at which it began. What has yet to be
   * sent looks for a pod anew.
   *
   * @param pod as the watch shows it; undefined for one that was deleted
   */
  onPod(name: string, pod: Pod | undefined, answer: (key: ClaimKey) => LocalAnswer): void;
  /**
   * Ends what is under way at a pod that is being released: WebSockets at once, requests after `drainMs`. Then says on
   * the pod that nothing is in flight there any more.
   */
  drain(name: string, options: { answer: LocalAnswer; drainMs: number }): void;
  /** Ends what is under way at all pods of a workload. */
  stopWorkload(workload: string, answer: LocalAnswer): void;
  /** Ends all records of activity, so that the last of it is written, and what is still asked of the API server. */
  close(): void;
}

const GONE = errorAnswer(502, "the pod is gone");

/** A request that comes so soon after the last one shares its record of activity. */
const LINGER_MS = 1000;
/** The least time between two records of traffic over one WebSocket. */
const TRAFFIC_MS = 1000;
/**
 * The operator saves files 15 s after the beginning of a release at the earliest, where a pod says that requests are in
 * flight. What a pod answers within these times of a look at the claim, or of the release's beginning, is saved then.
 */
const HELD_MS = 10_000;
const RELEASE_MS = 12_000;
/** For so long an answer waits for an API server that cannot be asked. */
const ASK_MS = 10_000;
const ASK_AGAIN_MS = 500;

interface Used {
  readonly uid: string;
  readonly host: string;
  readonly key: ClaimKey;
  readonly requests: Members<Stop>;
  readonly sockets: Members<Stop>;
  /** Resolved when no request has been in flight for a while. */
  isIdle: Deferred<void> | undefined;
  cancelIdle: (() => void) | undefined;
  /** Called when no request is left. */
  onDrained: (() => void) | undefined;
  /** When the API server was last asked and the claim was not being released. */
  heldAt: number;
  /** Since when, by the activity's word, the pod had said then that requests are in flight. */
  heldSince: number | undefined;
  asking: Promise<boolean> | undefined;
}

/** A request counts as use of its pod from its start to its end; an open WebSocket while data goes over it. */
export function createInstanceUses(options: {
  activity: Pick<Activity, "duringInFlight" | "announceInFlight" | "clearInFlight" | "touch">;
  /** One that no setting of the system's clock moves: an old look at a claim would seem recent. */
  clock: Clock;
  /** The time of day, which is what a release's beginning is told in. */
  timeOfDay: () => number;
}): InstanceUses {
  const { activity, clock, timeOfDay } = options;
  const pods = new Map<string, Used>();
  const closed = new AbortController();

  function find({ name, uid, host }: AwakePod, key: ClaimKey): Used {
    const known = pods.get(name);
    if (known?.uid === uid && known.host === host) return known;
    if (known !== undefined) stopAll(known, GONE, { sparesUnsent: true });
    const used: Used = {
      uid,
      host,
      key,
      requests: createMembers(),
      sockets: createMembers(),
      isIdle: undefined,
      cancelIdle: undefined,
      onDrained: undefined,
      heldAt: Number.NEGATIVE_INFINITY,
      heldSince: undefined,
      asking: undefined,
    };
    pods.set(name, used);
    return used;
  }

  function record(name: string, used: Used): void {
    if (used.isIdle !== undefined) return;
    const idle = createDeferred<void>();
    used.isIdle = idle;
    void activity.duringInFlight(name, () => idle.promise);
  }

  /** A request or a WebSocket has ended, or the one has become the other. */
  function look(name: string, used: Used): void {
    if (used.requests.size > 0) return;
    used.onDrained?.();
    if (used.isIdle !== undefined) used.cancelIdle ??= clock.after(LINGER_MS, () => endRecord(name, used));
    else forget(name, used);
  }

  function endRecord(name: string, used: Used): void {
    used.cancelIdle?.();
    used.cancelIdle = undefined;
    if (used.requests.size > 0) return;
    used.isIdle?.resolve();
    used.isIdle = undefined;
    forget(name, used);
  }

  /**
   * A release begins at the API server, and neither the watches of this process nor those of the operator need to show
   * it in time: this process may have been suspended. So the pod says first that requests may be in flight, and then
   * the claim is read. Where it was not being released, a release that begins later finds what the pod says, unless
   * that had a gap since.
   */
  async function ask(pod: AwakePod, used: Used): Promise<boolean> {
    const limit = startDeadline(ASK_MS, clock);
    const { signal, close } = linkSignals(limit.signal, closed.signal);
    try {
      while (!signal.aborted) {
        const since = await activity.announceInFlight(pod.name);
        const askedAt = clock.now();
        try {
          if (since !== undefined) {
            const releasedAt = await pod.releasedAt(signal);
            if (releasedAt !== undefined) return used.heldSince === since && timeOfDay() < releasedAt + RELEASE_MS;
            used.heldAt = askedAt;
            used.heldSince = since;
            // Not where this process was suspended over the question.
            if (isRecent(used)) return true;
          }
        } catch (error) {
          if (signal.aborted) throw error;
        }
        await sleep(ASK_AGAIN_MS, { clock, signal });
      }
    } catch {
      // The time is up, so that it cannot be told.
    } finally {
      close();
      limit.close();
    }
    return false;
  }

  function isRecent({ heldAt }: Used): boolean {
    const ageMs = clock.now() - heldAt;
    return ageMs >= 0 && ageMs < HELD_MS;
  }

  function isHeld(pod: AwakePod, used: Used): true | Promise<boolean> {
    if (used.asking === undefined && isRecent(used)) return true;
    used.asking ??= ask(pod, used).finally(() => {
      used.asking = undefined;
    });
    return used.asking;
  }

  function forget(name: string, used: Used): void {
    if (used.requests.size === 0 && used.sockets.size === 0 && pods.get(name) === used) pods.delete(name);
  }

  return {
    begin(pod, key, stop) {
      const { name } = pod;
      const used = find(pod, key);
      let toldAt = 0;
      let leave = used.requests.add(stop);
      record(name, used);
      return {
        becomesSocket() {
          if (!leave()) return;
          leave = used.sockets.add(stop);
          look(name, used);
        },
        onTraffic() {
          const now = clock.now();
          if (now - toldAt < TRAFFIC_MS) return;
          toldAt = now;
          activity.touch(name);
        },
        keep: () => void isHeld(pod, used),
        isKept: () => isHeld(pod, used),
        end() {
          if (leave()) look(name, used);
        },
      };
    },
    onPod(name, pod, answer) {
      const used = pods.get(name);
      if (used === undefined) return;
      if (pod?.metadata.uid === used.uid && pod.status?.podIP === used.host) return;
      stopAll(used, answer(used.key), { sparesUnsent: true });
    },
    drain(name, { answer, drainMs }) {
      const used = pods.get(name);
      if (used === undefined) {
        void activity.clearInFlight(name);
        return;
      }
      const cancel = clock.after(drainMs, () => stopAll(used, answer));
      used.onDrained = () => {
        used.onDrained = undefined;
        cancel();
        endRecord(name, used);
        used.heldAt = Number.NEGATIVE_INFINITY;
        used.heldSince = undefined;
        void activity.clearInFlight(name);
      };
      for (const stop of used.sockets.all()) stop(answer);
      if (used.requests.size === 0) used.onDrained?.();
    },
    stopWorkload(workload, answer) {
      for (const used of pods.values()) if (used.key.workloadRef === workload) stopAll(used, answer);
    },
    close() {
      closed.abort();
      for (const { isIdle, cancelIdle } of pods.values()) {
        cancelIdle?.();
        isIdle?.resolve();
      }
    },
  };
}

function stopAll({ requests, sockets }: Used, ...how: Parameters<Stop>): void {
  for (const stop of [...requests.all(), ...sockets.all()]) stop(...how);
}
