/** What is under way at present, each to be taken out by whoever put it in. */
export interface Members<T> {
  readonly size: number;
  /** Returns what takes it out, and then says whether it was in. */
  add(member: T): () => boolean;
  /** All of them, as they are now. */
  all(): T[];
}

/**
 * Makes an empty one, for members that come and go thousands of times a second. Not a `Set`: JavaScriptCore makes a new
 * table for one every so many additions, and an old table that has survived a collection keeps what was in it until the
 * next full one. Requests with all that they hold were kept so for seconds, hundreds of megabytes of them.
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
