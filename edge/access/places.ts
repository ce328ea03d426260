import { isIPv6 } from "node:net";
import type { Clock } from "../../crds/client/clock.ts";
import { createDeferred, onAbort } from "../../crds/waits.ts";
import { createCounts } from "../counts.ts";
import { HttpError } from "../http/http-error.ts";

/** Who causes work: a network or namespace, and the address or account in it. */
export type Origin = readonly [group: string, one: string];

/** Limits work that strangers can cause, such as requests to another server. */
export interface Places {
  /**
   * Does the work once a place is free. Groups with waiting work get free places in turn, and those in a group too. So
   * one who causes much work delays others by the work of one place, and cannot keep them out.
   *
   * @param options.clientGone aborted when the client that waits disconnects
   * @throws HttpError 503 if too much waits already, or for too long; 499 when the client disconnects before
   */
  take<T>(origin: Origin, work: () => Promise<T>, options?: { clientGone?: AbortSignal | undefined }): Promise<T>;
}

interface Waiting {
  start(): void;
  refuse(): void;
}

/**
 * @param options.most number of places
 * @param options.mostOfGroup number of places that one group may have at the same time
 * @param options.mostWaiting how much may wait: beyond that the newest of the group with the most is refused
 * @param options.waitMs milliseconds
 * @param options.busy message for those that are refused
 */
export function createPlaces(options: {
  most: number;
  mostOfGroup: number;
  mostWaiting: number;
  waitMs: number;
  busy: string;
  clock: Pick<Clock, "after">;
}): Places {
  const { most, mostOfGroup, mostWaiting, waitMs, busy, clock } = options;
  /** By group, and by who in it; the first is next. */
  const waiting = new Map<string, Map<string, Set<Waiting>>>();
  const waitingOf = createCounts();
  let waitingInAll = 0;
  const taken = createCounts();
  let takenInAll = 0;

  function isFree(group: string): boolean {
    return takenInAll < most && taken.of(group) < mostOfGroup;
  }

  function add([group, one]: Origin, waiter: Waiting): void {
    const ofGroup = waiting.get(group) ?? new Map<string, Set<Waiting>>();
    const own = ofGroup.get(one) ?? new Set();
    waiting.set(group, ofGroup.set(one, own.add(waiter)));
    waitingOf.add(group);
    waitingInAll += 1;
    if (waitingInAll > mostWaiting) newestOfLargest(group)?.refuse();
  }

  function remove([group, one]: Origin, waiter: Waiting): void {
    const ofGroup = waiting.get(group);
    const own = ofGroup?.get(one);
    if (ofGroup === undefined || own?.delete(waiter) !== true) return;
    waitingOf.remove(group);
    waitingInAll -= 1;
    if (own.size === 0) ofGroup.delete(one);
    if (ofGroup.size === 0) waiting.delete(group);
  }

  /** @param arrived the group that the newest one is of: if no other has more, that one is refused */
  function newestOfLargest(arrived: string): Waiting | undefined {
    let largest = arrived;
    for (const group of waiting.keys()) if (waitingOf.of(group) > waitingOf.of(largest)) largest = group;
    let found: ReadonlySet<Waiting> = new Set();
    for (const own of waiting.get(largest)?.values() ?? []) if (own.size > found.size) found = own;
    return [...found].at(-1);
  }

  /** Gives free places to those that wait. */
  function startNext(): void {
    for (const [group, ofGroup] of waiting) {
      if (takenInAll >= most) return;
      if (!isFree(group)) continue;
      const [one, own] = firstOf(ofGroup) ?? ["", new Set()];
      const [waiter] = own;
      // Both go to the end of their turns.
      ofGroup.delete(one);
      ofGroup.set(one, own);
      waiting.delete(group);
      waiting.set(group, ofGroup);
      waiter?.start();
    }
  }

  function wait(origin: Origin, clientGone: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = createDeferred<void>();
    const [group] = origin;
    function leave(): void {
      remove(origin, waiter);
      cancel();
      ignoreAbort();
    }
    const waiter: Waiting = {
      start() {
        leave();
        begin(group);
        resolve();
      },
      refuse() {
        leave();
        reject(new HttpError(503, busy, { headers: { "retry-after": "1" } }));
      },
    };
    const cancel = clock.after(waitMs, waiter.refuse);
    const ignoreAbort = onAbort(clientGone, () => {
      leave();
      reject(new HttpError(499, "the client went away"));
    });
    add(origin, waiter);
    return promise;
  }

  function begin(group: string): void {
    taken.add(group);
    takenInAll += 1;
  }

  return {
    async take(origin, work, { clientGone } = {}) {
      const [group] = origin;
      if (clientGone?.aborted) throw new HttpError(499, "the client went away");
      if (isFree(group)) begin(group);
      else await wait(origin, clientGone);
      try {
        return await work();
      } finally {
        taken.remove(group);
        takenInAll -= 1;
        startNext();
      }
    },
  };
}

function firstOf<K, T>(map: ReadonlyMap<K, T>): [K, T] | undefined {
  const [first] = map;
  return first;
}

/**
 * The networks of a client's address. A person has a /64 of IPv6 addresses at least, and often a /48; an IPv4 address is
 * grouped with its /24.
 *
 * @param address in its canonical spelling, as `ClientAddress` finds it; undefined if it is not known
 */
export function networksOf(address = ""): Origin {
  if (!isIPv6(address)) return [address.replace(/\.\d+$/, ""), address];
  const [start = "", end] = address.split("::");
  const [head, tail] = [start, end ?? ""].map((part) => (part === "" ? [] : part.split(":"))) as [string[], string[]];
  const words = [...head, ...Array<string>(Math.max(0, 8 - head.length - tail.length)).fill("0"), ...tail];
  return [words.slice(0, 3).join(":"), words.slice(0, 4).join(":")];
}
