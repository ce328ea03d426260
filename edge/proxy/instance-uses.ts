import type { ClaimKey } from "../../crds/claims/claim-key.ts";
import type { Clock } from "../../crds/client/clock.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { createDeferred, type Deferred } from "../../crds/waits.ts";
import type { Activity } from "../activity.ts";
import { createReleaseHold, type ReleaseHold } from "../release-hold.ts";
import type { Stop } from "./forward.ts";
import { errorAnswer, type LocalAnswer } from "./http/local-answer.ts";
import { createMembers, type Members } from "./members.ts";
import type { AwakePod } from "./wake/find-awake.ts";

/** One request at a pod, or one open WebSocket. */
export interface InstanceUse {
  /** From now on only its data counts as use of the pod. */
  becomesSocket(): void;
  onTraffic(): void;
  /** Starts to ensure that a release of the instance waits for this request, if it may change something. */
  keep(): void;
  /**
   * Whether a release saves the request's changes, as far as the operator waits for it; synchronous if already known.
   */
  isKept(): true | Promise<boolean>;
  end(): void;
}

/** Tracks which requests use which pod. */
export interface InstanceUses {
  /** @param stop ends the request, with a response if none has begun */
  begin(pod: AwakePod, key: ClaimKey, stop: Stop): InstanceUse;
  /**
   * Ends the requests at a pod that is gone, or no longer has the address at which they began. Requests that were not
   * sent yet look for a pod again.
   *
   * @param pod as shown by the watch; undefined for a deleted one
   */
  onPod(name: string, pod: Pod | undefined, answer: (key: ClaimKey) => LocalAnswer): void;
  /**
   * Ends the requests at a pod that is being released: WebSockets immediately, requests after `drainMs`. Then announces
   * on the pod that nothing is in flight any more.
   */
  drain(name: string, options: { answer: LocalAnswer; drainMs: number }): void;
  /** Ends the requests at all pods of a workload. */
  stopWorkload(workload: string, answer: LocalAnswer): void;
  /** Ends all records of activity, so that the last one is written, and pending requests to the API server. */
  close(): void;
}

const GONE = errorAnswer(502, "the pod is gone");

/** A request that follows the last one within this time shares its record of activity. */
const LINGER_MS = 1000;
/** Minimum time between two records of traffic over one WebSocket. */
const TRAFFIC_MS = 1000;

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
  readonly hold: ReleaseHold;
}

/** A request counts as use of its pod from start to end; an open WebSocket while data goes over it. */
export function createInstanceUses(options: {
  activity: Pick<Activity, "duringInFlight" | "announceInFlight" | "clearInFlight" | "touch">;
  /** Independent of the system's clock: otherwise an old read of a claim could seem recent. */
  clock: Clock;
  /** The time of day, in which the start of a release is given. */
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
      hold: createReleaseHold(name, { activity, clock, timeOfDay, signal: closed.signal }),
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

  /** A request or a WebSocket has ended, or a request has become a WebSocket. */
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
        keep: () => void used.hold.isHeld(pod.releasedAt),
        isKept: () => used.hold.isHeld(pod.releasedAt),
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
        used.hold.reset();
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
