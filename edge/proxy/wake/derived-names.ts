import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { derivedDigits } from "../../../crds/host-name.ts";
import { eachInPages, type PageFilter, type StorePage } from "../../../crds/snapshots/store-pages.ts";

/** Reads a page of the keys that have archives. */
export type ReadNames = (filter: PageFilter) => Promise<StorePage<ClaimKey>>;

/** The owners of derived host names, by digits. The digits cannot be computed backwards, so all names are listed. */
export interface DerivedNames {
  /** Whether a recent list has shown that the key has an archive; for keys with a derived name. */
  has(key: ClaimKey): boolean;
  named(digits: string): ClaimKey | undefined;
  isListed(digits: string): boolean;
  refresh(digits: string): Promise<void>;
  /** Remembers the name of a key until it is dropped, whatever lists contain. */
  keep(key: ClaimKey): void;
  drop(key: ClaimKey): void;
}

/** Pause after the end of a list of the archives, */
const LIST_MS = 60_000;
/** and after a failed one. */
const FAILED_MS = 5000;
/** Maximum number of remembered digits that were not requested; most tenants have readable names. */
const MOST_NAMES = 50_000;
const MOST_WANTED = 1000;
const PAGE_KEYS = 1000;

export function createDerivedNames(options: {
  readNames: ReadNames;
  clock: Clock;
  /** @default 50000 */
  mostNames?: number | undefined;
}): DerivedNames {
  const { readNames, clock, mostNames = MOST_NAMES } = options;
  const kept = new Map<string, ClaimKey>();
  let names: ReadonlyMap<string, ClaimKey> = new Map();
  let last: { readonly at: number; readonly isComplete: boolean; readonly wanted: ReadonlySet<string> } | undefined;
  /** Digits that the next list looks for, even if it has more names than are remembered. */
  let wanted = new Set<string>();
  let listing: Promise<void> | undefined;
  let failed: { readonly at: number; readonly error: unknown } | undefined;

  async function list(): Promise<void> {
    const looked = wanted;
    wanted = new Set();
    try {
      const found = new Map<string, ClaimKey>();
      let isComplete = true;
      for await (const key of eachInPages(readNames, { limit: PAGE_KEYS })) {
        const digits = digitsOf(key);
        if (digits === undefined) continue;
        if (found.size < mostNames || looked.has(digits)) found.set(digits, keyOf(key));
        else isComplete = false;
      }
      names = found;
      // A list of many may take longer than it is valid.
      last = { at: clock.now(), isComplete, wanted: looked };
      failed = undefined;
    } catch (error) {
      failed = { at: clock.now(), error };
      throw error;
    } finally {
      listing = undefined;
    }
  }

  const isFresh = (): boolean => last !== undefined && clock.now() - last.at < LIST_MS;

  function isListed(digits: string): boolean {
    return isFresh() && (last?.isComplete === true || last?.wanted.has(digits) === true);
  }

  return {
    isListed,
    named: (digits) => kept.get(digits) ?? names.get(digits),

    has(key) {
      const digits = isFresh() ? digitsOf(key) : undefined;
      const found = digits === undefined ? undefined : names.get(digits);
      return found !== undefined && claimKey(found) === claimKey(key);
    },

    async refresh(digits) {
      while (!isListed(digits)) {
        if (failed !== undefined && clock.now() - failed.at < FAILED_MS) throw failed.error;
        if (wanted.size >= MOST_WANTED) throw new Error("too many visitors request unknown names");
        wanted.add(digits);
        // The last list omitted some, or began without these digits. The next one looks for them.
        if (listing === undefined && isFresh()) throw new Error("too many archives to remember the names of all");
        listing ??= list();
        await listing;
      }
    },

    keep(key) {
      const digits = digitsOf(key);
      if (digits !== undefined) kept.set(digits, key);
    },
    drop(key) {
      const digits = digitsOf(key);
      if (digits !== undefined) kept.delete(digits);
    },
  };
}

function digitsOf({ tenantId, workloadRef }: ClaimKey): string | undefined {
  return derivedDigits({ workload: workloadRef, tenantId });
}

function keyOf({ tenantId, workloadRef }: ClaimKey): ClaimKey {
  return { tenantId, workloadRef };
}
