/** Most bytes of progress that wait for the client of one message, and of all messages of a key on a replica. */
const MOST = { ofMessage: 256 * 1024, ofKey: 8 * 1024 * 1024 };

/** Progress of one message that was sent to a client and that it has not read. */
export interface Unread {
  /** @returns whether so many bytes may be sent; else they are not counted */
  add(bytes: number): boolean;
  /** The client has read so many bytes, of any kind. */
  read(bytes: number): void;
  /** Nothing waits any more; nothing more may be sent. */
  close(): void;
}

/** @returns begins to count for a message of a key */
export function createUnread(most = MOST): (ref: string) => Unread {
  const ofKeys = new Map<string, number>();
  return (ref) => {
    let unread = 0;
    let isClosed = false;
    function change(bytes: number): void {
      unread += bytes;
      const ofKey = (ofKeys.get(ref) ?? 0) + bytes;
      if (ofKey === 0) ofKeys.delete(ref);
      else ofKeys.set(ref, ofKey);
    }
    return {
      add(bytes) {
        const isFull = unread + bytes > most.ofMessage || (ofKeys.get(ref) ?? 0) + bytes > most.ofKey;
        if (isClosed || isFull) return false;
        change(bytes);
        return true;
      },
      read: (bytes) => change(-Math.min(bytes, unread)),
      close() {
        isClosed = true;
        change(-unread);
      },
    };
  };
}
