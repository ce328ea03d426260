import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { type SnapshotKey, snapshotPath } from "../../crds/snapshots/snapshot-key.ts";

/** Things that a look has brought along, for the restore that follows it. */
export interface HeldArchives<T> {
  /** Keeps it for ten seconds, in the place of what was held before. */
  hold(key: SnapshotKey, found: T): void;
  /** Gives it out, once. */
  take(key: SnapshotKey): T | undefined;
  clear(): void;
}

/** Between the look and the restore lies the binding of a pod. */
const HELD_MS = 10_000;
const MOST_HELD = 16;

/** Holds a few at a time, the latest. */
export function createHeldArchives<T>({ clock = systemClock }: { clock?: Clock | undefined } = {}): HeldArchives<T> {
  const held = new Map<string, { readonly found: T; readonly cancel: () => void }>();

  function drop(path: string): T | undefined {
    const entry = held.get(path);
    entry?.cancel();
    held.delete(path);
    return entry?.found;
  }

  return {
    hold(key, found) {
      const path = snapshotPath(key);
      drop(path);
      const [oldest] = held.keys();
      if (oldest !== undefined && held.size >= MOST_HELD) drop(oldest);
      held.set(path, { found, cancel: clock.after(HELD_MS, () => drop(path)) });
    },
    take: (key) => drop(snapshotPath(key)),
    clear() {
      for (const path of [...held.keys()]) drop(path);
    },
  };
}
