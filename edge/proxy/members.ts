/** The requests in progress; the code that adds one removes it. */
export interface Members<T> {
  readonly size: number;
  /** Returns a function that removes it, and returns whether it was still included. */
  add(member: T): () => boolean;
  /** All of them, as they are now. */
  all(): T[];
}

/**
 * Makes an empty set, for members that come and go thousands of times a second. Not a `Set`: JavaScriptCore makes a new
 * table after a number of additions, and an old table that survived a collection holds its members until the next full
 * one. Requests with everything that they reference were held for seconds, hundreds of megabytes.
 */
export function createMembers<T>(): Members<T> {
  const entries: { readonly member: T; at: number }[] = [];
  return {
    get size() {
      return entries.length;
    },
    add(member) {
      const entry = { member, at: entries.length };
      entries.push(entry);
      return () => {
        if (entries[entry.at] !== entry) return false;
        const last = entries.pop();
        if (last === undefined || last === entry) return true;
        entries[entry.at] = last;
        last.at = entry.at;
        return true;
      };
    },
    all: () => entries.map(({ member }) => member),
  };
}
