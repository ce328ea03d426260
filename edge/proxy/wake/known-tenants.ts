import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { derivedDigits } from "../../../crds/host-name.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";

/** Which tenants strangers may wake: those that are there, or every visitor could have pods made for names of its own. */
export interface KnownTenants {
  /** Whether the tenant has a claim on the workload, or files of it. @throws where that cannot be found out */
  has(key: ClaimKey): boolean | Promise<boolean>;
  /** Whose derived host names have these digits, of those without a claim, as far as is known without a list. */
  named(digits: string): ClaimKey | undefined;
  /** Whether the last list is not old. */
  isListed(): boolean;
  /** Lists the archives where the last list is old. @throws where they cannot be listed */
  refresh(): Promise<void>;
  /** Tells of a claim that was deleted. */
  onReleased(key: ClaimKey): void;
}

interface Known {
  readonly key: ClaimKey;
  /** Of its derived host names. */
  readonly digits: string | undefined;
}

/** The archives are listed at most this often. */
const LIST_MS = 60_000;
/** And so long after a list that failed: each may start a program, and anybody can ask for one. */
const FAILED_MS = 5000;
/** Released claims are remembered for longer than a list is used, which may be older than their archives. */
const RELEASED_MS = 2 * LIST_MS;

/** @param options.listArchives @default there are none */
export function createKnownTenants(options: {
  claims: Pick<ClusterCache["claims"], "store">;
  listArchives: (() => Promise<Iterable<ClaimKey>>) | undefined;
  clock: Clock;
}): KnownTenants {
  const { claims, listArchives, clock } = options;
  const released = new Map<string, Known & { readonly at: number }>();
  let archives: ReadonlyMap<string, Known> = new Map();
  let names = new Map<string, ClaimKey>();
  let listedAt = Number.NEGATIVE_INFINITY;
  let listing: Promise<void> | undefined;
  let failed: { readonly at: number; readonly error: unknown } | undefined;

  async function list(): Promise<void> {
    const startedAt = clock.now();
    try {
      const found = new Map<string, Known>();
      for (const key of (await listArchives?.()) ?? []) {
        const id = claimKey(key);
        found.set(id, archives.get(id) ?? knownOf(key));
      }
      archives = found;
      names = new Map();
      for (const known of [...archives.values(), ...released.values()]) name(known);
      listedAt = startedAt;
      failed = undefined;
    } catch (error) {
      failed = { at: clock.now(), error };
      throw error;
    } finally {
      listing = undefined;
    }
  }

  function name({ key, digits }: Known): void {
    if (digits !== undefined) names.set(digits, key);
  }

  function isListed(): boolean {
    return clock.now() - listedAt < LIST_MS;
  }

  async function refresh(): Promise<void> {
    if (isListed()) return;
    if (failed !== undefined && clock.now() - failed.at < FAILED_MS) throw failed.error;
    listing ??= list();
    await listing;
  }

  return {
    has(key) {
      const id = claimKey(key);
      const isClaimed = claims.store.by("key", id).size > 0;
      if (isClaimed || archives.has(id) || (released.get(id)?.at ?? 0) > clock.now() - RELEASED_MS) return true;
      return isListed() ? false : refresh().then(() => archives.has(id));
    },
    named: (digits) => names.get(digits),
    isListed,
    refresh,
    onReleased(key) {
      const now = clock.now();
      const id = claimKey(key);
      // In the order of their times, so that the old ones come first.
      released.delete(id);
      const known = knownOf(key);
      released.set(id, { ...known, at: now });
      name(known);
      for (const [old, { at, digits }] of released) {
        if (at > now - RELEASED_MS) break;
        released.delete(old);
        if (digits !== undefined && !archives.has(old)) names.delete(digits);
      }
    },
  };
}

function knownOf({ tenantId, workloadRef }: ClaimKey): Known {
  return { key: { tenantId, workloadRef }, digits: derivedDigits({ workload: workloadRef, tenantId }) };
}
