import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { PageFilter, StorePage } from "../../../crds/snapshots/store-pages.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { createDerivedNames, type ReadNames } from "./derived-names.ts";

/**
 * The tenants that strangers may wake: only existing ones, otherwise every visitor could create pods for invented
 * names.
 */
export interface KnownTenants {
  /** Whether the tenant has a claim on the workload, or saved files. @throws if that cannot be determined */
  has(key: ClaimKey): boolean | Promise<boolean>;
  /** The owner of a derived host name without a claim, by its digits, if known without a list. */
  named(digits: string): ClaimKey | undefined;
  /** Whether a recent list has shown the owner of the digits. */
  isListed(digits: string): boolean;
  /** Looks for the digits in a list of the archives. @throws if it cannot be read now */
  refresh(digits: string): Promise<void>;
  /** Reports a claim that was deleted. */
  onReleased(key: ClaimKey): void;
}

/** How long an answer is used. */
const KNOWN_MS = 60_000;
/** Pause before a failed store is asked again: each visitor may start a program, and anyone can send a request. */
const FAILED_MS = 5000;
/**
 * Released claims are remembered for longer than an answer is used, since an answer may be older than their archives.
 */
const RELEASED_MS = 2 * KNOWN_MS;
/** A store may have a million tenants, and strangers any number of names. */
const MOST_ANSWERS = 10_000;
const LOOKS_AT_ONCE = 32;

/** @param options.readNames pages of the keys that have archives. @default none */
export function createKnownTenants(options: {
  claims: Pick<ClusterCache["claims"], "store">;
  readNames: ReadNames | undefined;
  clock: Clock;
}): KnownTenants {
  const { claims, readNames = noNames, clock } = options;
  const released = new Map<string, { readonly key: ClaimKey; readonly at: number }>();
  const derived = createDerivedNames({ readNames, clock });
  /** Whether keys have archives, oldest answer first. */
  const answers = new Map<string, { readonly at: number; readonly isThere: boolean }>();
  const looking = new Map<string, Promise<boolean>>();
  let failed: { readonly at: number; readonly error: unknown } | undefined;

  async function look({ tenantId, workloadRef }: ClaimKey, id: string): Promise<boolean> {
    const at = clock.now();
    try {
      const { items } = await readNames({ tenantId, workloadRef, limit: 1 });
      const isThere = items.length > 0;
      answers.delete(id);
      answers.set(id, { at, isThere });
      const [oldest] = answers.keys();
      if (answers.size > MOST_ANSWERS && oldest !== undefined) answers.delete(oldest);
      return isThere;
    } catch (error) {
      failed = { at: clock.now(), error };
      throw error;
    } finally {
      looking.delete(id);
    }
  }

  async function lookShared(key: ClaimKey, id: string): Promise<boolean> {
    if (failed !== undefined && clock.now() - failed.at < FAILED_MS) throw failed.error;
    const under = looking.get(id);
    if (under !== undefined) return await under;
    if (looking.size >= LOOKS_AT_ONCE) throw new Error("too many visitors request unknown tenants");
    const found = look(key, id);
    looking.set(id, found);
    return await found;
  }

  return {
    has(key) {
      const id = claimKey(key);
      if (claims.store.by("key", id).size > 0) return true;
      const now = clock.now();
      if ((released.get(id)?.at ?? 0) > now - RELEASED_MS || derived.has(key)) return true;
      const answer = answers.get(id);
      return answer !== undefined && now - answer.at < KNOWN_MS ? answer.isThere : lookShared(key, id);
    },
    named: derived.named,
    isListed: derived.isListed,
    refresh: derived.refresh,
    onReleased(key) {
      const now = clock.now();
      const id = claimKey(key);
      // Ordered by time, so that the old ones come first.
      released.delete(id);
      const own = { tenantId: key.tenantId, workloadRef: key.workloadRef };
      released.set(id, { key: own, at: now });
      derived.keep(own);
      for (const [old, { key: former, at }] of released) {
        if (at > now - RELEASED_MS) break;
        released.delete(old);
        derived.drop(former);
      }
    },
  };
}

async function noNames(_: PageFilter): Promise<StorePage<ClaimKey>> {
  return { items: [], next: undefined };
}
