/** Whoever keeps bytes in memory: for a peer that does not read, or of a message whose rest has not arrived. */
export interface Holder {
  /** How many it keeps at this moment. */
  measure(): number;
  /** Ends its connection, and with it what it keeps. */
  cut(): void;
}

/**
 * What a connection keeps that its peer does not read: what is yet to be written to it, and as much again, which the
 * other side has read before it stopped.
 */
export function unreadBytes({ writableLength }: { readonly writableLength: number }): number {
  return 2 * writableLength;
}

/** Bounds what all connections keep in memory together. */
export interface HeldBytes {
  /** Returns what tells that a holder may keep more or less than before; the last call is for a `measure` of none. */
  add(holder: Holder): () => void;
}

/**
 * Beyond the limit it cuts who has kept something for the longest without a break: peers that never read or never
 * finish, and not those that are slow.
 */
export function createHeldBytes(limit: number): HeldBytes {
  interface Entry extends Holder {
    bytes: number;
  }
  /** In the order in which they began to keep something. */
  const entries = new Set<Entry>();
  let total = 0;

  function update(entry: Entry, bytes: number): void {
    total += bytes - entry.bytes;
    entry.bytes = bytes;
    if (bytes === 0) entries.delete(entry);
    else entries.add(entry);
  }

  function makeRoom(): void {
    for (const entry of entries) {
      if (total <= limit) return;
      const known = entry.bytes;
      // Nobody tells when the system has taken the last bytes of a write.
      const bytes = entry.measure();
      update(entry, bytes);
      if (bytes < known) continue;
      update(entry, 0);
      entry.cut();
    }
  }

  return {
    add({ measure, cut }) {
      const entry: Entry = { measure, cut, bytes: 0 };
      return () => {
        const bytes = measure();
        if (bytes === entry.bytes) return;
        update(entry, bytes);
        if (total > limit) makeRoom();
      };
    },
  };
}
