import { HttpError } from "../http/http-error.ts";

/** Messages of one key that may be open at once on a replica. */
const MOST_OPEN = 1000;

/** The messages that are being answered, so that others can cancel them. */
export interface OpenCalls {
  /**
   * Adds one.
   *
   * @param call.session without it, the message cannot be cancelled by another
   * @param call.end ends it
   * @returns removes it; further calls do nothing
   * @throws HttpError 429 if too many of the key are open
   */
  add(call: { ref: string; session: string | undefined; id: unknown; end: () => void }): () => void;
  /** Ends the message with that id, if it is open. */
  cancel(session: string, id: unknown): void;
}

export function createOpenCalls(mostOpen = MOST_OPEN): OpenCalls {
  const counts = new Map<string, number>();
  const ends = new Map<string, () => void>();
  const nameOf = (session: string, id: unknown): string => `${session} ${JSON.stringify(id)}`;
  return {
    add({ ref, session, id, end }) {
      const count = counts.get(ref) ?? 0;
      if (count >= mostOpen)
        throw new HttpError(429, `${mostOpen} messages of this key are open on this replica; wait for their answers`, {
          headers: { "retry-after": "1" },
        });
      counts.set(ref, count + 1);
      const name = session === undefined ? undefined : nameOf(session, id);
      if (name !== undefined) ends.set(name, end);
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        const left = (counts.get(ref) ?? 1) - 1;
        if (left === 0) counts.delete(ref);
        else counts.set(ref, left);
        if (name !== undefined && ends.get(name) === end) ends.delete(name);
      };
    },
    cancel: (session, id) => ends.get(nameOf(session, id))?.(),
  };
}
