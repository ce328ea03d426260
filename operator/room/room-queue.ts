import type { Claim } from "../../crds/claim.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { ResourceQuota } from "../../crds/kubernetes.ts";
import { FIRST_REPORT_MS } from "../claim/outcome.ts";
import type { FullQuota } from "../pod/pod-refusal.ts";
import { createRoomLedger, type PodNeeds, type RoomLedger } from "./quota-room.ts";

/** Claims that may create their pods at the same time. */
const MOST_TURNS = 128;
/** A claim that has not used its turn by then has none any more, such as one whose workload is not ready. */
const TURN_MS = 10_000;
/** For so long nothing is given to others of what ends for a claim. */
const RESERVED_MS = 30_000;
/** A claim's place changes in its status after as many seconds as its number, so that a long queue costs few writes. */
const SOONEST_MS = 10_000;
const LATEST_MS = 300_000;
const MOST_NEEDS = 1000;
/** What is refused is tried again so often without an event: not every quota shows what it has left. */
const LOOK_MS = 15_000;

/**
 * The claims that wait until the quotas of the namespace have room for their pods.
 *
 * - The tenant with the fewest instances, those that are starting counted, comes first; of the same tenant, and
 *   of tenants with as many, the claim that has waited longest. A claim whose session goes on comes before all others.
 * - A claim that needs more than is left does not hold up those that need less.
 * - A new claim waits behind those before it in this order, also if there is room at the moment.
 *
 * The order follows from claims and pods, so a new leader continues with it once it has read all claims.
 */
export interface RoomQueue {
  readonly size: number;
  has(uid: string): boolean;
  /** Whether the claim may create its pod now; otherwise its place, from 1. */
  ask(claim: Claim, options: Asked & { isAlone: boolean }): "now" | Place;
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
  /** Whether pods end, or are about to, so that claims have room. */
  makeRoom(isMaking: boolean): void;
  plan(options: {
    readonly quotas: Iterable<ResourceQuota>;
    /** Pods that are about to leave: what they use is not asked for again. */
    readonly leaving: Iterable<PodNeeds>;
    instancesOf(tenantId: string): number;
  }): RoomPlan;
}

export interface Asked {
  readonly pod: PodNeeds;
  /** Since when it waits, also under a former leader, in milliseconds since the epoch, by the API server's clock. */
  readonly since: number;
  /** The time now, by the same clock. */
  readonly now: number;
  /** Whether it was Active, and its session continues in another pod. */
  readonly goesOn: boolean;
}

export interface Place {
  readonly place: number;
  readonly size: number;
  /** Since when this leader has it in the queue, by the API server's clock, in milliseconds since the epoch. */
  readonly since: number;
  /** The quota that refused a claim last. */
  readonly full: FullQuota | undefined;
  /** When the place is to be asked for again. */
  readonly againMs: number;
}

export interface RoomPlan {
  /** May create their pods now, the first first. */
  readonly turns: readonly Claim[];
  /** Those that do not fit, in order, and what is left for them: pods that no claim has can make room. */
  readonly short: readonly ShortOfRoom[];
  readonly ledger: RoomLedger;
}

export interface ShortOfRoom {
  /** One object for equal needs. */
  readonly pod: PodNeeds;
  /** Pods end for it. */
  reserve(): void;
}

interface Waiting {
  readonly claim: Claim;
  readonly since: number;
  readonly entered: { readonly at: number; readonly since: number };
  pod: PodNeeds;
  goesOn: boolean;
  place: number;
  told:
    | { readonly place: number; readonly size: number; readonly full: FullQuota | undefined; readonly at: number }
    | undefined;
  reservedUntil: number;
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
  let hasTurns = false;
  let isMakingRoom = false;
  /** Equal needs are one object. */
  const needs = new Map<string, PodNeeds>();
  /** Needs that were refused though they seemed to fit, and in which round: they are tried one at a time. */
  const doubtful = new Map<PodNeeds, number>();

  function enter(claim: Claim, asked: Asked): Waiting {
    const { uid = "" } = claim.metadata;
    const known = waiting.get(uid);
    const pod = needsOf(asked.pod);
    if (known !== undefined) {
      // The workload may have changed.
      if (known.pod !== pod || known.goesOn !== asked.goesOn) changed();
      return Object.assign(known, { pod, goesOn: asked.goesOn });
    }
    const added: Waiting = {
      ...{ claim, pod, since: asked.since, goesOn: asked.goesOn, entered: { at: clock.now(), since: asked.now } },
      ...{ place: waiting.size + 1, told: undefined, turnSince: undefined, refusedIn: undefined, reservedUntil: 0 },
    };
    waiting.set(uid, added);
    changed();
    return added;
  }

  /** Quotas count little of a rendered pod, and most claims need the same. */
  function needsOf({ spec }: PodNeeds): PodNeeds {
    const containers = spec.containers.map(({ name, resources = {} }) => ({ name, resources }));
    const key = JSON.stringify(containers);
    if (needs.size > MOST_NEEDS) needs.clear();
    const known = needs.get(key) ?? { spec: { containers } };
    needs.set(key, known);
    return known;
  }

  function placeOf(entry: Waiting): Place {
    const now = clock.now();
    const { told, entered } = entry;
    const isDue = told === undefined || now - told.at >= pauseMs(told.place);
    const { place, size, full: by } = isDue ? { place: entry.place, size: waiting.size, full } : told;
    if (isDue && now - entered.at >= FIRST_REPORT_MS) entry.told = { place, size, full: by, at: now };
    return { place, size, full: by, since: entered.since, againMs: pauseMs(place) };
  }

  function changed(): void {
    isPlanned = false;
    onChange();
  }

  function nextRound(): void {
    round += 1;
    roundAt = clock.now();
    for (const [pod, refusedIn] of doubtful) if (refusedIn < round - 1) doubtful.delete(pod);
  }

  return {
    get size() {
      return waiting.size;
    },
    has: (uid) => waiting.has(uid),
    ask(claim, { isAlone, ...asked }) {
      if (waiting.size === 0 && isAlone) return "now";
      const entry = enter(claim, asked);
      return entry.turnSince === undefined ? placeOf(entry) : "now";
    },
    refused(claim, { full: by, ...asked }) {
      const entry = enter(claim, asked);
      if (entry.turnSince !== undefined) doubtful.set(entry.pod, round);
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
    isGiving: () => waiting.size > 0 && (!isPlanned || hasTurns || isMakingRoom),
    makeRoom(isMaking) {
      isMakingRoom = isMaking;
    },
    plan({ quotas, leaving, instancesOf }) {
      const now = clock.now();
      if (now - roundAt >= LOOK_MS) nextRound();
      for (const [uid, { turnSince = now }] of waiting) if (now - turnSince >= TURN_MS) waiting.delete(uid);
      const ledger = createRoomLedger(quotas);
      const ordered = order(waiting.values(), instancesOf);
      const hasTurn = new Set<PodNeeds>();
      let left = MOST_TURNS;
      for (const { turnSince, pod } of ordered) {
        if (turnSince === undefined) continue;
        left -= 1;
        hasTurn.add(pod);
        ledger.take(pod);
      }
      const turns: Claim[] = [];
      const tooLarge = new Set<PodNeeds>();
      const behind: Waiting[] = [];
      for (const [index, entry] of ordered.entries()) {
        entry.place = index + 1;
        if (entry.turnSince !== undefined) continue;
        const { pod } = entry;
        const isHopeless = doubtful.has(pod) && (hasTurn.has(pod) || doubtful.get(pod) === round);
        const mayTry = left > 0 && entry.refusedIn !== round && !isHopeless && !tooLarge.has(pod);
        if (mayTry && isTaken(pod, ledger)) {
          entry.turnSince = now;
          turns.push(entry.claim);
          hasTurn.add(pod);
          left -= 1;
          continue;
        }
        // Those behind it do not get what ends for it.
        if (entry.reservedUntil > now) {
          ledger.take(pod);
          continue;
        }
        if (mayTry) tooLarge.add(pod);
        behind.push(entry);
      }
      isPlanned = true;
      hasTurns = left < MOST_TURNS;
      for (const pod of leaving) ledger.give(pod);
      const fitsNot = new Set<PodNeeds>();
      const short: ShortOfRoom[] = [];
      for (const entry of behind) {
        const { pod } = entry;
        if (!fitsNot.has(pod) && isTaken(pod, ledger)) continue;
        fitsNot.add(pod);
        const reserve = (): void => {
          entry.reservedUntil = now + RESERVED_MS;
        };
        short.push({ pod, reserve });
      }
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

function pauseMs(place: number): number {
  return Math.min(LATEST_MS, Math.max(SOONEST_MS, place * 1000));
}

function order(entries: Iterable<Waiting>, instancesOf: (tenantId: string) => number): Waiting[] {
  const byTenant = new Map<string, Waiting[]>();
  for (const entry of entries) {
    const { tenantId } = entry.claim.spec;
    const own = byTenant.get(tenantId);
    if (own === undefined) byTenant.set(tenantId, [entry]);
    else own.push(entry);
  }
  const ranked = [...byTenant].flatMap(([tenantId, own]) => {
    const others = instancesOf(tenantId);
    return own.sort(byAge).map((entry, index) => ({ entry, rank: entry.goesOn ? -1 : others + index }));
  });
  return ranked.sort((a, b) => a.rank - b.rank || byAge(a.entry, b.entry)).map(({ entry }) => entry);
}

function byAge(a: Waiting, b: Waiting): number {
  if (a.goesOn !== b.goesOn) return a.goesOn ? -1 : 1;
  return a.since - b.since || ((a.claim.metadata.uid ?? "") < (b.claim.metadata.uid ?? "") ? -1 : 1);
}
