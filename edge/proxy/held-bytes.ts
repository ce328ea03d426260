/** A buffer: for a peer that does not read, or of an incomplete message. */
export interface Holder {
  /** Its current size in bytes. */
  measure(): number;
  /** Closes its connection, and drops the buffer. */
  cut(): void;
}

/**
 * What a connection buffers for a peer that does not read: unwritten bytes, and the same amount again that the other
 * side read before it stopped.
 */
export function unreadBytes({ writableLength }: { readonly writableLength: number }): number {
  return 2 * writableLength;
}

/** Limits the memory of the buffers of all connections. */
export interface HeldBytes {
  /** Returns a function to call when the size changes; the last call is for a `measure` of 0. */
  add(holder: Holder): () => void;
}

/**
 * Above the limit it closes the connections that have buffered without a break for the longest time: peers that never
 * read or never finish, not slow ones.
 */
export function createHeldBytes(limit: number): HeldBytes {
  interface Entry extends Holder {
    bytes: number;
  }
  /** In the order in which they began to buffer. */
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
      // No event reports when the system has taken the last bytes of a write.
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
