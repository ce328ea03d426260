import type { Claim } from "../../crds/claim.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { ResourceQuota } from "../../crds/kubernetes.ts";
import type { FullQuota } from "../pod/pod-refusal.ts";
import { createRoomLedger, type PodNeeds, type RoomLedger } from "./quota-room.ts";

/** Claims that may create their pods at the same time. */
const MOST_TURNS = 128;
/** A claim that has not used its turn by then has none any more, such as one whose workload is not ready. */
const TURN_MS = 10_000;
/** What is refused is tried again so often without an event: not every quota shows what it has left. */
const LOOK_MS = 15_000;

/**
 * The claims that wait until the quotas of the namespace have room for their pods.
 *
 * - The tenant with the fewest claims that have an instance, or are getting one, comes first; of the same tenant, and
 *   of tenants with as many, the claim that has waited longest. A claim whose session goes on comes before all others.
 * - A claim that needs more than is left does not hold up those that need less.
 * - A new claim waits behind those before it in this order, also if there is room at the moment.
 *
 * The order follows from the claims alone, so a new leader continues with it.
 */
export interface RoomQueue {
  readonly size: number;
  has(uid: string): boolean;
  /** Whether the claim may create its pod now; otherwise its place, from 1. */
  ask(claim: Claim, options: Asked): "now" | Place;
  /** A quota has refused the claim's pod. */
  refused(claim: Claim, options: Asked & { full: FullQuota }): Place;
  /** The claim has a pod, has failed, or is gone. */
  leave(uid: string): void;
  /** A quota has more room: all that were refused may try again. */
  roomMade(): void;
  /**
   * Whether claims are about to take room, so that pools start no pods. Pools may take what no claim fits into: their
   * pods end for the claim that fits then. Else a large claim that waits would keep all pools from filling.
   */
  isGiving(): boolean;
  plan(options: {
    readonly quotas: Iterable<ResourceQuota>;
    /** Pods that are about to leave: what they use is not asked for again. */
    readonly leaving: Iterable<PodNeeds>;
    /** How many of a tenant's claims have not failed, and are not released. */
    claimsOf(tenantId: string): number;
  }): RoomPlan;
}

export interface Asked {
  readonly pod: PodNeeds;
  /** Since when it waits, in milliseconds since the epoch, by the API server's clock. */
  readonly since: number;
  /** Whether it was Active, and its session continues in another pod. */
  readonly goesOn: boolean;
}

export interface Place {
  readonly place: number;
  readonly size: number;
  readonly since: number;
  /** The quota that refused it, or the last one before it. */
  readonly full: FullQuota | undefined;
}

export interface RoomPlan {
  /** May create their pods now, the first first. */
  readonly turns: readonly Claim[];
  /** The first of those that do not fit, and what is left for them: pods that no claim has can make room. */
  readonly short: readonly PodNeeds[];
  readonly ledger: RoomLedger;
}

interface Waiting extends Asked {
  readonly claim: Claim;
  place: number;
  turnSince: number | undefined;
  refusedIn: number | undefined;
}

/** @param options.onChange called if the plan may be another */
export function createRoomQueue({ onChange, clock = steadyClock }: { onChange: () => void; clock?: Clock }): RoomQueue {
  const waiting = new Map<string, Waiting>();
  /** Changes when what was refused is worth another try. */
  let round = 0;
  let roundAt = clock.now();
  let full: FullQuota | undefined;
  let isPlanned = true;
  let isMakingRoom = false;
  /** Equal needs are one object. */
  const needs = new Map<string, PodNeeds>();

  function enter(claim: Claim, asked: Asked): Waiting {
    const { uid = "" } = claim.metadata;
    const known = waiting.get(uid);
    if (known !== undefined) return known;
    const added = {
      ...{ claim, since: asked.since, goesOn: asked.goesOn },
      pod: needsOf(asked.pod),
      ...{ place: waiting.size + 1, turnSince: undefined, refusedIn: undefined },
    };
    waiting.set(uid, added);
    changed();
    return added;
  }

  /** Quotas count little of a rendered pod, and most claims need the same. */
  function needsOf({ spec }: PodNeeds): PodNeeds {
    const containers = spec.containers.map(({ name, resources = {} }) => ({ name, resources }));
    const key = JSON.stringify(containers);
    const known = needs.get(key) ?? { spec: { containers } };
    needs.set(key, known);
    return known;
  }

  const placeOf = ({ place, since }: Waiting): Place => ({ place, size: waiting.size, since, full });

  function changed(): void {
    isPlanned = false;
    onChange();
  }

  function nextRound(): void {
    round += 1;
    roundAt = clock.now();
  }

  return {
    get size() {
      return waiting.size;
    },
    has: (uid) => waiting.has(uid),
    ask(claim, asked) {
      if (waiting.size === 0) return "now";
      const entry = enter(claim, asked);
      return entry.turnSince === undefined ? placeOf(entry) : "now";
    },
    refused(claim, { full: by, ...asked }) {
      const entry = enter(claim, asked);
      Object.assign(entry, { turnSince: undefined, refusedIn: round });
      full = by;
      changed();
      return placeOf(entry);
    },
    leave(uid) {
      if (!waiting.delete(uid)) return;
      if (waiting.size === 0) needs.clear();
      changed();
    },
    roomMade() {
      nextRound();
      if (waiting.size > 0) changed();
    },
    isGiving: () => waiting.size > 0 && (!isPlanned || isMakingRoom),
    plan({ quotas, leaving, claimsOf }) {
      const now = clock.now();
      if (now - roundAt >= LOOK_MS) nextRound();
      for (const [uid, { turnSince = now }] of waiting) if (now - turnSince >= TURN_MS) waiting.delete(uid);
      const ledger = createRoomLedger(quotas);
      const ordered = order(waiting.values(), claimsOf);
      let left = MOST_TURNS;
      for (const { turnSince, pod } of ordered) {
        if (turnSince === undefined) continue;
        left -= 1;
        ledger.take(pod);
      }
      const turns: Claim[] = [];
      const tooLarge = new Set<PodNeeds>();
      const behind: Waiting[] = [];
      for (const [index, entry] of ordered.entries()) {
        entry.place = index + 1;
        if (entry.turnSince !== undefined) continue;
        const mayTry = left > 0 && entry.refusedIn !== round && !tooLarge.has(entry.pod);
        if (mayTry && isTaken(entry.pod, ledger)) {
          entry.turnSince = now;
          turns.push(entry.claim);
          left -= 1;
          continue;
        }
        if (mayTry) tooLarge.add(entry.pod);
        if (behind.length < MOST_TURNS) behind.push(entry);
      }
      const ending = [...leaving];
      isPlanned = true;
      isMakingRoom = left < MOST_TURNS || ending.length > 0;
      for (const pod of ending) ledger.give(pod);
      const short = behind.map(({ pod }) => pod).filter((pod) => !isTaken(pod, ledger));
      return { turns, short, ledger };
    },
  };
}

/** Takes what the pod uses, if it is there. */
export function isTaken(pod: PodNeeds, ledger: RoomLedger): boolean {
  const fits = ledger.lacks(pod).length === 0;
  if (fits) ledger.take(pod);
  return fits;
}

function order(entries: Iterable<Waiting>, claimsOf: (tenantId: string) => number): Waiting[] {
  const byTenant = new Map<string, Waiting[]>();
  for (const entry of entries) {
    const { tenantId } = entry.claim.spec;
    const own = byTenant.get(tenantId);
    if (own === undefined) byTenant.set(tenantId, [entry]);
    else own.push(entry);
  }
  const ranked = [...byTenant].flatMap(([tenantId, own]) => {
    const others = claimsOf(tenantId) - own.length;
    return own.sort(byAge).map((entry, index) => ({ entry, rank: entry.goesOn ? -1 : others + index }));
  });
  return ranked.sort((a, b) => a.rank - b.rank || byAge(a.entry, b.entry)).map(({ entry }) => entry);
}

function byAge(a: Waiting, b: Waiting): number {
  if (a.goesOn !== b.goesOn) return a.goesOn ? -1 : 1;
  return a.since - b.since || ((a.claim.metadata.uid ?? "") < (b.claim.metadata.uid ?? "") ? -1 : 1);
}
