import { createDeferred, type Deferred } from "../../../crds/client/deferred.ts";
import { orAborted } from "../../or-aborted.ts";

/** A trigger's place among those with the same token. */
export interface BotTurn {
  /** Waits until no earlier trigger has the token; says whose turn it is meanwhile. @throws the signal's reason */
  first(options: { signal: AbortSignal; onWait: (servedBy: string) => void }): Promise<void>;
  /** Calls back once when an earlier trigger comes; the function it returns ends that. */
  onOvertaken(callback: (servedBy: string) => void): () => void;
  leave(): void;
}

/**
 * Which of several triggers with one token polls: the one that was made first, by its creation time and then its name, so that
 * all replicas choose the same and its status keeps the place.
 */
export interface BotTurns {
  enter(lease: string, trigger: { name: string; createdAt: string }): BotTurn;
}

interface Entry {
  readonly order: string;
  readonly name: string;
  changed: Deferred<void>;
  onOvertaken: ((servedBy: string) => void) | undefined;
}

export function createBotTurns(): BotTurns {
  const entries = new Map<string, Set<Entry>>();

  function earliest(lease: string): Entry | undefined {
    return [...(entries.get(lease) ?? [])].sort((a, b) => (a.order < b.order ? -1 : 1))[0];
  }

  function change(lease: string): void {
    const first = earliest(lease);
    for (const entry of entries.get(lease) ?? []) {
      entry.changed.resolve();
      entry.changed = createDeferred();
      if (first !== undefined && entry !== first) entry.onOvertaken?.(first.name);
    }
  }

  return {
    enter(lease, { name, createdAt }) {
      const entry: Entry = { order: `${createdAt} ${name}`, name, changed: createDeferred(), onOvertaken: undefined };
      const others = entries.get(lease) ?? new Set();
      entries.set(lease, others.add(entry));
      change(lease);
      return {
        async first({ signal, onWait }) {
          for (let before = earliest(lease); before !== entry; before = earliest(lease)) {
            if (before !== undefined) onWait(before.name);
            await orAborted(entry.changed.promise, signal);
          }
        },
        onOvertaken(callback) {
          entry.onOvertaken = callback;
          const first = earliest(lease);
          if (first !== undefined && first !== entry) callback(first.name);
          return () => {
            entry.onOvertaken = undefined;
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
