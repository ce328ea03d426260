import { createHash } from "node:crypto";
import { createDeferred, type Deferred, orAborted } from "../../../crds/waits.ts";
import type { AdapterContext } from "../adapter.ts";

/** The place of a trigger in the queue for its token. */
export interface QueuedTrigger {
  /**
   * Waits until no earlier trigger has the token, and calls back with the one that polls until then.
   *
   * @throws the signal's reason
   */
  untilFirst(options: { signal: AbortSignal; onWait: (servedBy: string) => void }): Promise<void>;
  /** Calls back when an earlier trigger enters the queue; returns a function that stops. */
  onPreempted(callback: (servedBy: string) => void): () => void;
  leave(): void;
}

/**
 * Decides which of several triggers with one token polls: the oldest, by creation time and then name, so that all
 * replicas choose the same one and its status holds the state.
 */
export interface BotQueue {
  enter(lease: string, trigger: { name: string; createdAt: string }): QueuedTrigger;
}

interface Entry {
  readonly order: string;
  readonly name: string;
  changed: Deferred<void>;
  onPreempted: ((servedBy: string) => void) | undefined;
}

export function createBotQueue(): BotQueue {
  const entries = new Map<string, Set<Entry>>();

  function earliest(lease: string): Entry | undefined {
    return [...(entries.get(lease) ?? [])].sort((a, b) => (a.order < b.order ? -1 : 1))[0];
  }

  function change(lease: string): void {
    const first = earliest(lease);
    for (const entry of entries.get(lease) ?? []) {
      entry.changed.resolve();
      entry.changed = createDeferred();
      if (first !== undefined && entry !== first) entry.onPreempted?.(first.name);
    }
  }

  return {
    enter(lease, { name, createdAt }) {
      const entry: Entry = { order: `${createdAt} ${name}`, name, changed: createDeferred(), onPreempted: undefined };
      const others = entries.get(lease) ?? new Set();
      entries.set(lease, others.add(entry));
      change(lease);
      return {
        async untilFirst({ signal, onWait }) {
          for (let before = earliest(lease); before !== entry; before = earliest(lease)) {
            if (before !== undefined) onWait(before.name);
            await orAborted(entry.changed.promise, signal);
          }
        },
        onPreempted(callback) {
          entry.onPreempted = callback;
          const first = earliest(lease);
          if (first !== undefined && first !== entry) callback(first.name);
          return () => {
            entry.onPreempted = undefined;
          };
        },
        leave() {
          others.delete(entry);
          if (others.size === 0) entries.delete(lease);
          change(lease);
        },
      };
    },
  };
}

/** The bot of a token, without the token. */
export interface BotIdentity {
  /** The bot's own id, as in events. */
  readonly id: string;
  /** The bot and server that the offset in the trigger's status belongs to. */
  readonly key: string;
  /** Name of the Lease that the token's only poller holds. */
  readonly lease: string;
}

/**
 * A token is `<bot id>:<secret>`; a renewed token keeps the bot's id and its updates
 * (https://core.telegram.org/bots/api#authorizing-your-bot).
 */
export function botIdentity(token: string, apiBaseUrl: string): BotIdentity {
  const id = /^(\d{1,20}):/.exec(token)?.[1] ?? digest(token, 12);
  return { id, key: digest(`${apiBaseUrl}\n${id}`, 16), lease: `tenancy-messenger-${digest(token, 16)}` };
}

/** The Leases of one trigger's tokens. */
export interface Leases {
  /**
   * Runs the work while this process holds the Lease. If `stop` is aborted before the work begins, the work is not run.
   *
   * @throws what the work throws, or the reason of `stop`
   */
  whileHolding(lease: string, stop: AbortSignal, work: (held: AbortSignal) => Promise<void>): Promise<void>;
  /** Resolves when every wait for a Lease has ended. */
  closed(): Promise<void>;
}

export function createLeases(context: Pick<AdapterContext, "whileHolding" | "log">): Leases {
  /** Abandoned waits that have not ended yet: each Lease is waited for only once at a time. */
  const leftover = new Map<string, Promise<void>>();
  return {
    async whileHolding(lease, stop, work) {
      const earlier = leftover.get(lease);
      if (earlier !== undefined) await orAborted(earlier, stop);
      let working: Promise<void> | undefined;
      let failure: unknown;
      const holding = context.whileHolding(lease, async (held) => {
        if (stop.aborted) return;
        working = work(held).catch((error: unknown) => {
          failure = error;
        });
        await working;
        if (failure !== undefined) throw failure;
      });
      try {
        await orAborted(holding, stop);
      } catch (error) {
        if (working === undefined && stop.aborted) {
          const waiting = holding
            .catch((reason: unknown) => context.log.debug({ reason, lease }, "lease wait ended"))
            .finally(() => leftover.delete(lease));
          leftover.set(lease, waiting);
          throw error;
        }
        await working;
        await holding;
      }
      if (failure !== undefined) throw failure;
    },
    async closed() {
      await Promise.all(leftover.values());
    },
  };
}

function digest(text: string, digits: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, digits);
}
