import type { Tap } from "../faults/fault-proxy.ts";

export const EVENT_KINDS = ["late", "twice", "lost"] as const;

/**
 * One thing that goes wrong in a run. `crash`: the operator is killed once the API server has carried out a write and
 * before its answer arrives. Of a watch event: it comes after others, twice, or never.
 */
export interface Disturbance {
  readonly kind: "crash" | (typeof EVENT_KINDS)[number];
  /** The write or event, such as `PATCH pods` and `MODIFIED tenancyclaims`. */
  readonly what: string;
  /** Which one of these, from 1: writes that do not depend on each other come in any order. */
  readonly nth: number;
}

/** What passed between the operator and the API server about the objects of one run. */
export interface Traffic {
  /** In order, as in {@link Disturbance.what}. */
  readonly writes: readonly string[];
  readonly events: readonly string[];
  /** The disturbance has happened. */
  readonly isHit: boolean;
  /** For how long nothing has passed, and nothing is held back or killed, in milliseconds. */
  quietMs(): number;
}

export interface DisturbingTap extends Tap {
  /** Follows the objects that name the run, until the next call. */
  follow(run: string, disturbance?: Disturbance): Traffic;
}

/** What is done to the operator and its watches. */
export interface TapActions {
  /** Kills the operator, and returns what starts it again. */
  crash(): Promise<() => Promise<void>>;
  /** Holds back every watch of a kind, or delivers what was held back. */
  hold(plural: string, isHeld: boolean): void;
  /** Has every watch of a kind list again. */
  relist(plural: string): void;
  onTrouble(error: unknown): void;
}

/** A held event comes, and a lost one is listed, after so many others or this time without any. */
const OTHERS = 8;
const QUIET_MS = 700;
/** The operator's own bookkeeping, which is about no object of a run. */
const IGNORED = new Set(["events", "leases"]);
/** What is written to the helper pod. */
const ARCHIVES = "archives";

export function createTap(actions: TapActions): DisturbingTap {
  const { onTrouble } = actions;
  let run = "";
  let disturbance: Disturbance | undefined;
  let traffic = emptyTraffic();
  let lastAt = performance.now();
  let isCrashed = false;
  /** Ends what is under way, and counts what passes until then. */
  let pending: { end(): void; others: number; timer: NodeJS.Timeout; uid: string | undefined } | undefined;

  function emptyTraffic() {
    return { writes: [] as string[], events: [] as string[], isHit: false };
  }

  function passed(): void {
    lastAt = performance.now();
    if (pending === undefined) return;
    pending.others += 1;
    if (pending.others >= OTHERS) endPending();
    else pending.timer.refresh();
  }

  function endPending(): void {
    const ended = pending;
    pending = undefined;
    clearTimeout(ended?.timer);
    ended?.end();
    lastAt = performance.now();
  }

  function isIt(list: readonly string[], what: string, kinds: readonly string[]): boolean {
    if (disturbance === undefined || traffic.isHit || !kinds.includes(disturbance.kind)) return false;
    if (what !== disturbance.what) return false;
    return list.filter((one) => one === what).length === disturbance.nth;
  }

  async function restart(start: () => Promise<void>): Promise<void> {
    await start();
    isCrashed = false;
    lastAt = performance.now();
  }

  return {
    follow(name, given) {
      if (pending !== undefined) endPending();
      [run, disturbance, traffic] = [name, given, emptyTraffic()];
      lastAt = performance.now();
      return Object.assign(traffic, {
        quietMs: () => (isCrashed || pending !== undefined ? 0 : performance.now() - lastAt),
      });
    },
    async onWritten({ method, path, body }) {
      const resource = resourceIn(path);
      const what = `${method} ${resource}`;
      const isOfRun = resource === ARCHIVES || `${path}${body}`.includes(run);
      if (run === "" || IGNORED.has(resource) || !isOfRun) return false;
      traffic.writes.push(what);
      passed();
      if (!isIt(traffic.writes, what, ["crash"])) return false;
      [traffic.isHit, isCrashed] = [true, true];
      try {
        restart(await actions.crash()).catch(onTrouble);
      } catch (error) {
        onTrouble(error);
      }
      return true;
    },
    onEvent(plural, line) {
      if (run === "" || IGNORED.has(plural) || !line.includes(run)) return 1;
      const { type, object } = JSON.parse(line.toString("utf8")) as { type: string; object: Seen };
      if (type === "BOOKMARK" || type === "ERROR") return 1;
      const what = `${type} ${plural}`;
      const { uid } = object.metadata;
      traffic.events.push(what);
      // A later event of the object brings what the lost one would have.
      if (disturbance?.kind === "lost" && pending?.uid === uid && pending !== undefined) pending.end = () => undefined;
      passed();
      if (!isIt(traffic.events, what, EVENT_KINDS)) return 1;
      traffic.isHit = true;
      const isLost = disturbance?.kind === "lost";
      if (disturbance?.kind === "twice") return 2;
      if (!isLost) actions.hold(plural, true);
      const end = (): void => (isLost ? actions.relist(plural) : actions.hold(plural, false));
      pending = { end, others: 0, uid, timer: setTimeout(endPending, QUIET_MS) };
      return isLost ? 0 : 1;
    },
  };
}

interface Seen {
  readonly metadata: { readonly uid?: string };
}

/** `pods/binding` of `/api/v1/namespaces/tenancy/pods/a/binding?x`; of what the API server passes on, `archives`. */
function resourceIn(path: string): string {
  const parts = (path.split("?", 1)[0] ?? "").split("/").filter((part) => part !== "");
  if (parts.includes("proxy")) return ARCHIVES;
  const from = parts.indexOf("namespaces");
  const [plural = parts.at(-1) ?? "", , subresource] = from < 0 ? [] : parts.slice(from + 2);
  return subresource === undefined ? plural : `${plural}/${subresource}`;
}
