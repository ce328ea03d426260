import { hash } from "node:crypto";
import type { Clock } from "../../crds/client/clock.ts";
import { HttpError } from "../http/http-error.ts";
import type { Actor } from "./actor.ts";

/** What a token gives. */
export interface TokenGrant extends Omit<Actor, "ended"> {
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

/** The actors of tokens that others issue. */
export interface TokenActors {
  /**
   * Who has the token: the same object for each call until the token ends.
   *
   * @throws HttpError 401 for an invalid token, 403 for one without rights, 503 while it cannot be checked
   */
  actorOf(text: string): Actor | Promise<Actor>;
  /** Ends the timers, and all actors. */
  close(): void;
}

interface Entry {
  readonly actor: Actor;
  /** Whether the last check could not be made. */
  isStale: boolean;
  end(): void;
}

/** Timers of a runtime count at most 2^31 ms; clocks drift. */
const MAX_TIMER_MS = 3_600_000;

/**
 * Stores what verified tokens give, by the SHA-256 of their text, until they end. Every `recheckMs` a token is verified
 * again: what it has opened ends if it is no longer valid, or gives something else. While it cannot be checked, its
 * calls are refused, and what is open stays open.
 *
 * @param options.verify `isKnown` for a token that is stored
 * @param options.most how many tokens of one person or account are stored @default 1000
 * @param options.mostInAll @default 20000
 */
export function createTokenActors(options: {
  verify: (text: string, options: { isKnown: boolean }) => Promise<TokenGrant>;
  recheckMs: number;
  clock: Clock;
  most?: number;
  mostInAll?: number;
}): TokenActors {
  const { verify, recheckMs, clock, most = 1000, mostInAll = 20_000 } = options;
  const entries = new Map<string, Entry>();
  /** Digests by the id of their actor, oldest first. */
  const digestsOf = new Map<string, Set<string>>();
  /** So that a token that arrives many times at once is verified once. */
  const verifying = new Map<string, Promise<Actor>>();

  function store(digest: string, { text, grant }: { text: string; grant: TokenGrant }): Actor {
    const { id, endsAt } = grant;
    if ((digestsOf.get(id)?.size ?? 0) >= most) endOldest(digestsOf.get(id));
    else if (entries.size >= mostInAll) endOldest(largest());
    const own = digestsOf.get(id) ?? new Set();
    digestsOf.set(id, own.add(digest));
    const ended = new AbortController();
    let cancelEnd = (): void => undefined;
    let cancelCheck = (): void => undefined;
    function end(): void {
      cancelEnd();
      cancelCheck();
      entries.delete(digest);
      own.delete(digest);
      if (own.size === 0) digestsOf.delete(id);
      ended.abort(new Error("the token has ended"));
    }
    function waitForEnd(): void {
      const left = endsAt - clock.now();
      if (left <= 0) end();
      else cancelEnd = clock.after(Math.min(left, MAX_TIMER_MS), waitForEnd);
    }
    function waitForCheck(): void {
      cancelCheck = clock.after(recheckMs, () => {
        const goOn = () => void (ended.signal.aborted || waitForCheck());
        verified(text, digest).then(goOn, goOn);
      });
    }
    const actor: Actor = { ...grant, ended: ended.signal };
    entries.set(digest, { actor, isStale: false, end });
    waitForCheck();
    waitForEnd();
    return actor;
  }

  function endOldest(digests: ReadonlySet<string> = new Set()): void {
    const [oldest] = digests;
    if (oldest !== undefined) entries.get(oldest)?.end();
  }

  function largest(): Set<string> | undefined {
    let found: Set<string> | undefined;
    for (const digests of digestsOf.values()) if (digests.size > (found?.size ?? 0)) found = digests;
    return found;
  }

  async function verified(text: string, digest: string): Promise<Actor> {
    const grant = await verify(text, { isKnown: entries.has(digest) }).catch((error: unknown) => {
      const failed = entries.get(digest);
      if (failed !== undefined && error instanceof HttpError && error.status < 500) failed.end();
      else if (failed !== undefined) failed.isStale = true;
      throw error;
    });
    const stored = entries.get(digest);
    if (stored?.actor.ref !== grant.ref) {
      stored?.end();
      return store(digest, { text, grant });
    }
    stored.isStale = false;
    return stored.actor;
  }

  return {
    actorOf(text) {
      const digest = hash("sha256", text, "base64url");
      const entry = entries.get(digest);
      // A timer can be late.
      if (entry !== undefined && (entry.actor.endsAt ?? 0) <= clock.now()) entry.end();
      else if (entry?.isStale === false) return entry.actor;
      const running = verifying.get(digest);
      if (running !== undefined) return running;
      const started = verified(text, digest).finally(() => verifying.delete(digest));
      verifying.set(digest, started);
      return started;
    },
    close() {
      for (const { end } of [...entries.values()]) end();
    },
  };
}
