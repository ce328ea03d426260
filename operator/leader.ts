import { isAlreadyExists, isConflict, isNotFound } from "../crds/client/api-error.ts";
import { createBackoff } from "../crds/client/backoff.ts";
import { leases } from "../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { startInformer } from "../crds/client/informer.ts";
import type { Lease } from "../crds/kubernetes.ts";
import type { Log } from "../crds/log.ts";

/** The time during which this process is the leader. */
export interface Term {
  /** Aborted when the term is over, whether it was lost or given back. */
  readonly signal: AbortSignal;
  /** Milliseconds left in which a write is safe; 0 when this process may not write. */
  writeTimeLeftMs(): number;
}

export interface LeaderOptions {
  client: ClusterClient;
  namespace: string;
  leaseName: string;
  /** Unique to this process. */
  identity: string;
  /** How long a lease holds without a renewal, in milliseconds. @default 10000 */
  leaseMs?: number;
  /** Works until `term.signal` or `signal` is aborted, then stops its work and resolves. */
  lead(term: Term): Promise<void>;
  log: Log;
  /** Aborted for a clean stop: the lease is handed over at once. */
  signal: AbortSignal;
}

/**
 * Leads whenever it can get the Lease, https://kubernetes.io/docs/concepts/architecture/leases/, until `signal` is aborted.
 *
 * The holder renews at a quarter of the lease and stops writing at three quarters, so that no successor can hold the lease while it
 * still writes. Expiry is judged by this process's own clock, from the moment that it saw the last renewal. A lease that was given
 * back is seen on a watch and taken at once.
 */
export async function runWhenLeading(options: LeaderOptions): Promise<void> {
  const { client, namespace, leaseName, identity, leaseMs = 10_000, log, signal } = options;
  const reference = { namespace, name: leaseName };
  const renewEveryMs = leaseMs / 4;
  const stopWritingAfterMs = (leaseMs * 3) / 4;
  let seen: { version: string; at: number } | undefined;
  let wake: () => void = () => undefined;

  const informer = startInformer({
    client,
    resource: leases,
    namespace,
    fieldSelector: `metadata.name=${leaseName}`,
    indexes: {},
    onChange: () => wake(),
    signal,
    log,
  });

  const backoff = createBackoff({ initialMs: 500, maxMs: renewEveryMs });
  while (!signal.aborted) {
    try {
      const held = await acquire();
      backoff.reset();
      if (held !== undefined) await runTerm(held);
    } catch (error) {
      if (signal.aborted) break;
      log.warn({ error }, "lease not acquired");
      await sleep(backoff.next());
    }
  }
  await informer.done;

  /** Waits for the lease to be free and takes it; undefined when the process stops first. */
  async function acquire(): Promise<{ lease: Lease; at: number } | undefined> {
    while (!signal.aborted) {
      const current = await readLease();
      const waitMs = current === undefined ? 0 : timeUntilFree(current);
      if (waitMs > 0) {
        await sleep(waitMs);
        continue;
      }
      const at = performance.now();
      const lease = await take(current);
      if (lease !== undefined) return { lease, at };
    }
    return undefined;
  }

  async function readLease(): Promise<Lease | undefined> {
    try {
      return await client.get(leases, reference, { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  function timeUntilFree(lease: Lease): number {
    // Its own, from a term that it lost while the API server was away: nobody else has taken it.
    if (!lease.spec?.holderIdentity || lease.spec.holderIdentity === identity) return 0;
    const version = lease.metadata.resourceVersion ?? "";
    if (seen?.version !== version) seen = { version, at: performance.now() };
    return seen.at + (lease.spec.leaseDurationSeconds ?? leaseMs / 1000) * 1000 - performance.now();
  }

  /** Writes this process into the lease; undefined when another was faster. */
  async function take(current: Lease | undefined): Promise<Lease | undefined> {
    const now = microTime();
    const spec = {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(leaseMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: (current?.spec?.leaseTransitions ?? 0) + 1,
    };
    try {
      if (current !== undefined) return await client.replace(leases, { ...current, spec }, { signal });
      return await client.create(leases, { metadata: reference, spec }, { signal });
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error)) return undefined;
      throw error;
    }
  }

  async function runTerm(held: { lease: Lease; at: number }): Promise<void> {
    let { lease, at: renewedAt } = held;
    const over = new AbortController();
    const term: Term = {
      signal: over.signal,
      writeTimeLeftMs: () =>
        over.signal.aborted ? 0 : Math.max(0, renewedAt + stopWritingAfterMs - performance.now()),
    };
    log.info({ identity, transitions: lease.spec?.leaseTransitions }, "leading");
    const renewals = renew();
    try {
      await options.lead(term);
    } finally {
      over.abort();
      await renewals;
    }
    if (signal.aborted) await giveBack();

    async function renew(): Promise<void> {
      while (!over.signal.aborted) {
        await sleep(Math.min(renewEveryMs, term.writeTimeLeftMs()), over.signal);
        if (over.signal.aborted) return;
        const timeoutMs = term.writeTimeLeftMs();
        if (timeoutMs === 0) {
          log.error({ identity }, "lease could not be renewed in time, leading no longer");
          over.abort();
          return;
        }
        const at = performance.now();
        try {
          const spec = { ...lease.spec, renewTime: microTime() };
          lease = await client.replace(leases, { ...lease, spec }, { timeoutMs });
          renewedAt = at;
        } catch (error) {
          if (over.signal.aborted) return;
          if (!isConflict(error)) {
            log.warn({ error }, "lease not renewed");
            await sleep(Math.min(500, term.writeTimeLeftMs()), over.signal);
            continue;
          }
          // Our own renewal may have got through although its answer did not.
          const current = await readLease().catch((cause: unknown) => {
            log.warn({ error: cause }, "lease not read");
            return lease;
          });
          if (current?.spec?.holderIdentity === identity) lease = current;
          else over.abort();
        }
      }
    }

    async function giveBack(): Promise<void> {
      try {
        const spec = { ...lease.spec, holderIdentity: "", renewTime: microTime() };
        await client.replace(leases, { ...lease, spec }, { timeoutMs: renewEveryMs });
        log.info({ identity }, "lease given back");
      } catch (error) {
        log.warn({ error }, "lease not given back, it runs out by itself");
      }
    }
  }

  /** Resolves after the delay, at a change of the lease, or when aborted. */
  function sleep(delayMs: number, aborted: AbortSignal = signal): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(finish, delayMs);
      aborted.addEventListener("abort", finish, { once: true });
      if (aborted === signal) wake = finish;
      function finish(): void {
        clearTimeout(timer);
        aborted.removeEventListener("abort", finish);
        resolve();
      }
    });
  }
}

/** The present time as Kubernetes' MicroTime. */
function microTime(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
