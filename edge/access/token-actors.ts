import { hash } from "node:crypto";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import { HttpError } from "../http/http-error.ts";
import type { Actor } from "./actor.ts";

/** What a token gives. */
export interface TokenGrant extends Omit<Actor, "ended" | "opens"> {
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

/** The actors of tokens that others issue. */
export interface TokenActors {
  /**
   * Who has the token: the same object for each call, as long as something is open under it.
   *
   * @param from finds the client's address
   * @throws HttpError 401 for an invalid token, 403 for one without rights, 503 while it cannot be checked
   */
  actorOf(text: string, from?: FindAddress): Actor | Promise<Actor>;
  /** Ends the timers, and all actors. */
  close(): void;
}

/** Finds a client's address; undefined if it is not known. */
export type FindAddress = () => string | undefined;

/** Finds out what a token gives; `known` is what it gave at the last check, if that is stored. */
export type VerifyToken = (
  text: string,
  options: { known: TokenGrant | undefined; from?: FindAddress | undefined },
) => Promise<TokenGrant>;

interface Entry {
  readonly text: string;
  readonly digest: string;
  readonly actor: Actor;
  /** What the last check gave. */
  grant: TokenGrant;
  /** When the last successful check began, by the steady clock. */
  checkedAt: number;
  /** Whether the last check could not be made. */
  isStale: boolean;
  /** Forgets the entry, without ending its actor. */
  drop(): void;
  end(): void;
}

/** Tokens that were refused. */
const MOST_REFUSED = 10_000;
/** Timers of a runtime count at most 2^31 ms; clocks drift. */
const MAX_TIMER_MS = 3_600_000;

/**
 * Stores what verified tokens give, by the SHA-256 of their text, until they end. A token is verified again after
 * `recheckMs`: at its next call, or by a timer while something is open under it, which ends if the token is no longer
 * valid, or gives something else. While a token cannot be checked, its calls are refused, and what is open stays open.
 *
 * Tokens with something open are all stored: each has a request or a WebSocket, and the edge bounds those. The least
 * recently used of the others are forgotten, which ends nothing: their next call verifies them again.
 *
 * @param options.refusedMs for how long a token that was refused is not verified again @default 0
 * @param options.steady for durations @default steadyClock
 * @param options.most how many idle tokens of one person or account are stored @default 1000
 * @param options.mostInAll @default 20000
 */
export function createTokenActors(options: {
  verify: VerifyToken;
  recheckMs: number;
  refusedMs?: number;
  clock: Clock;
  steady?: Pick<Clock, "now">;
  most?: number;
  mostInAll?: number;
}): TokenActors {
  const { verify, recheckMs, refusedMs = 0, clock, steady = steadyClock } = options;
  const { most = 1000, mostInAll = 20_000 } = options;
  const entries = new Map<string, Entry>();
  /** Those with timers; one that was forgotten and then used has them too. */
  const live = new Set<Entry>();
  /** Entries without anything open by the id of their actor, the least recently used first. */
  const idle = new Map<string, Set<Entry>>();
  let idleInAll = 0;
  /** So that a token that arrives many times at once is verified once. */
  const verifying = new Map<string, Promise<Actor>>();
  /** By the digest of the token; the oldest first. */
  const refusals = new Map<string, { readonly error: HttpError; readonly endsAt: number }>();
  let isClosed = false;

  function add(content: Pick<Entry, "text" | "digest" | "grant" | "checkedAt">): Entry {
    const { digest, grant } = content;
    const ended = new AbortController();
    let open = 0;
    let cancelEnd = (): void => undefined;
    let cancelCheck: (() => void) | undefined;

    function drop(): void {
      cancelEnd();
      cancelCheck?.();
      cancelCheck = undefined;
      live.delete(entry);
      leaveIdle(entry);
      if (entries.get(digest) === entry) entries.delete(digest);
    }
    function end(): void {
      drop();
      ended.abort(new Error("the token has ended"));
    }
    function start(): void {
      if (live.has(entry)) return;
      live.add(entry);
      // Another entry has its place if the token was used after this one was forgotten.
      if (!entries.has(digest)) entries.set(digest, entry);
      waitForEnd();
    }
    function waitForEnd(): void {
      const left = isClosed ? 0 : grant.endsAt - clock.now();
      if (left <= 0) end();
      else cancelEnd = clock.after(Math.min(left, MAX_TIMER_MS), waitForEnd);
    }
    function waitForCheck(delayMs: number): void {
      cancelCheck = clock.after(delayMs, () => {
        cancelCheck = undefined;
        if (open === 0) return;
        const left = dueIn(entry);
        if (left > 0) return waitForCheck(left);
        const goOn = () => void (ended.signal.aborted || cancelCheck || waitForCheck(recheckMs));
        const isStored = entries.get(digest) === entry;
        (isStored ? shared(digest, () => check(entry)) : check(entry)).then(goOn, goOn);
      });
    }
    function opens(): () => void {
      if (open === 0) {
        leaveIdle(entry);
        start();
      }
      if (ended.signal.aborted) return () => undefined;
      open += 1;
      if (cancelCheck === undefined) waitForCheck(Math.max(0, dueIn(entry)));
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        open -= 1;
        if (open > 0 || !live.has(entry)) return;
        if (entries.get(digest) === entry) rest(entry);
        else drop();
      };
    }

    const actor: Actor = { ...grant, ended: ended.signal, opens };
    const entry: Entry = { ...content, actor, isStale: false, drop, end };
    start();
    if (live.has(entry)) rest(entry);
    return entry;
  }

  function dueIn({ isStale, checkedAt }: Entry): number {
    return isStale ? 0 : checkedAt + recheckMs - steady.now();
  }

  function rest(entry: Entry): void {
    const { id } = entry.actor;
    const own = idle.get(id) ?? new Set();
    idle.set(id, own.add(entry));
    idleInAll += 1;
    if (own.size > most) dropFirst(own);
    else if (idleInAll > mostInAll) dropFirst(largest());
  }

  function leaveIdle(entry: Entry): void {
    const { id } = entry.actor;
    const own = idle.get(id);
    if (own?.delete(entry) !== true) return;
    idleInAll -= 1;
    if (own.size === 0) idle.delete(id);
  }

  function dropFirst(own: ReadonlySet<Entry>): void {
    const [first] = own;
    first?.drop();
  }

  function largest(): ReadonlySet<Entry> {
    let found: ReadonlySet<Entry> = new Set();
    for (const own of idle.values()) if (own.size > found.size) found = own;
    return found;
  }

  async function check(entry: Entry): Promise<Actor> {
    const { text, digest, grant: known } = entry;
    const checkedAt = steady.now();
    try {
      const grant = await verify(text, { known });
      if (grant.ref === entry.actor.ref) {
        Object.assign(entry, { grant, checkedAt, isStale: false });
        return entry.actor;
      }
      entry.end();
      return (entries.get(digest) ?? add({ text, digest, grant, checkedAt })).actor;
    } catch (error) {
      if (refuses(error)) {
        entry.end();
        remember(digest, error);
      } else entry.isStale = true;
      throw error;
    }
  }

  async function checkUnknown(text: string, digest: string, from: FindAddress | undefined): Promise<Actor> {
    const checkedAt = steady.now();
    try {
      const grant = await verify(text, { known: undefined, from });
      return (entries.get(digest) ?? add({ text, digest, grant, checkedAt })).actor;
    } catch (error) {
      if (refuses(error)) remember(digest, error);
      throw error;
    }
  }

  function remember(digest: string, error: HttpError): void {
    if (refusedMs === 0) return;
    refusals.delete(digest);
    refusals.set(digest, { error, endsAt: steady.now() + refusedMs });
    dropOldRefusals();
  }

  function dropOldRefusals(): void {
    for (const [digest, { endsAt }] of refusals) {
      if (refusals.size <= MOST_REFUSED && endsAt > steady.now()) return;
      refusals.delete(digest);
    }
  }

  function shared(digest: string, start: () => Promise<Actor>): Promise<Actor> {
    const running = verifying.get(digest);
    if (running !== undefined) return running;
    const started = start().finally(() => verifying.delete(digest));
    verifying.set(digest, started);
    return started;
  }

  return {
    actorOf(text, from) {
      const digest = hash("sha256", text, "base64url");
      dropOldRefusals();
      const refusal = refusals.get(digest);
      if (refusal !== undefined) throw refusal.error;
      const entry = entries.get(digest);
      // A timer can be late.
      if (entry !== undefined && entry.grant.endsAt <= clock.now()) entry.end();
      else if (entry !== undefined) return dueIn(entry) > 0 ? entry.actor : shared(digest, () => check(entry));
      return shared(digest, () => checkUnknown(text, digest, from));
    },
    close() {
      isClosed = true;
      for (const { end } of [...live]) end();
    },
  };
}

/** Whether an error says something of the token, and not of the moment. */
function refuses(error: unknown): error is HttpError {
  return error instanceof HttpError && error.status < 500;
}
