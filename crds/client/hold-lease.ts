import type { Lease, OwnerReference } from "../kubernetes.ts";
import type { Log } from "../log.ts";
import { onAbort } from "../waits.ts";
import { ifFound, isAlreadyExists, isConflict } from "./api-error.ts";
import { createBackoff } from "./backoff.ts";
import { leases } from "./built-in-resources.ts";
import { systemClock } from "./clock.ts";
import type { ClusterClient } from "./cluster-client.ts";
import { startInformer } from "./watch/informer.ts";

/** The time during which a Lease is held. */
export interface LeaseTerm {
  /** The annotations of the Lease as it was taken. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Aborted when the term is over, lost or released. */
  readonly signal: AbortSignal;
  /** Milliseconds left in which a write is safe; 0 if this process may not write. */
  writeTimeLeftMs(): number;
}

export interface HoldLeaseOptions {
  client: ClusterClient;
  namespace: string;
  leaseName: string;
  /** Unique to this call: a Lease with this identity belongs to this process. */
  identity: string;
  /** Milliseconds for which a lease is valid without a renewal. @default 10000 */
  leaseMs?: number;
  /** The annotations to take the Lease with. @default unchanged */
  annotate?: ((taken: Lease | undefined) => Promise<Record<string, string>>) | undefined;
  /**
   * The object that needs the Lease: the garbage collector deletes the Lease when its last owner is gone.
   * @default the Lease stays
   */
  owner?: OwnerReference | undefined;
  /** Works until it is done, or until `term.signal` or `signal` is aborted; then stops its work and resolves. */
  hold(term: LeaseTerm): Promise<void>;
  log: Log;
  /** Abort it for a clean stop: the lease is released at once. */
  signal: AbortSignal;
}

/**
 * Runs the work while this process holds a Lease, https://kubernetes.io/docs/concepts/architecture/leases/: waits until
 * it is free, works, and releases it. If the Lease is lost during the work, it waits for it again, until `signal` is
 * aborted.
 *
 * The holder renews after a quarter of the lease and stops writing after three quarters, so that no successor can hold
 * the lease while it still writes. Expiry is measured with this process's clock, from the time at which it saw the last
 * renewal. A watch shows a released lease, which is then taken at once.
 *
 * @throws the error of `hold`, if the Lease was still held
 */
export async function holdLease(options: HoldLeaseOptions): Promise<void> {
  const { client, namespace, leaseName, identity, leaseMs = 10_000, log, signal } = options;
  const reference = { namespace, name: leaseName };
  const renewEveryMs = leaseMs / 4;
  const stopWritingAfterMs = (leaseMs * 3) / 4;
  let seen: { version: string; at: number } | undefined;
  let endSleep: () => void = () => undefined;
  let changes = 0;

  const over = new AbortController();
  const ignoreStop = onAbort(signal, () => over.abort());
  const informer = startInformer({
    client,
    resource: leases,
    namespace,
    fieldSelector: `metadata.name=${leaseName}`,
    indexes: {},
    onChange() {
      changes += 1;
      endSleep();
    },
    signal: over.signal,
    log,
  });

  // Without the watch, a released lease is taken only when it would have expired.
  const watched = informer.done.catch((error: unknown) => log.warn({ lease: leaseName, error }, "lease not watched"));

  const backoff = createBackoff({ initialMs: 500, maxMs: renewEveryMs });
  try {
    for (let ended = false; !ended && !signal.aborted; ) {
      const held = await tryToAcquire();
      if (held !== undefined) ended = await runTerm(held);
    }
  } finally {
    ignoreStop();
    over.abort();
    await watched;
  }

  async function tryToAcquire(): Promise<{ lease: Lease; at: number } | undefined> {
    try {
      const held = await acquire();
      backoff.reset();
      return held;
    } catch (error) {
      if (signal.aborted) return undefined;
      log.warn({ lease: leaseName, error }, "lease not acquired");
      await sleep(backoff.next());
      return undefined;
    }
  }

  /** Waits until the lease is free and takes it; undefined if the process stops first. */
  async function acquire(): Promise<{ lease: Lease; at: number } | undefined> {
    while (!signal.aborted) {
      const known = changes;
      const current = await readLease();
      const waitMs = current === undefined ? 0 : timeUntilFree(current);
      if (waitMs > 0) {
        // If the lease changed during the read, the result may be stale: read it again instead of sleeping.
        if (changes === known) await sleep(waitMs);
        continue;
      }
      const at = performance.now();
      const lease = await take(current);
      if (lease !== undefined) return { lease, at };
    }
    return undefined;
  }

  function readLease(): Promise<Lease | undefined> {
    return ifFound(client.get(leases, reference, { signal }));
  }

  function timeUntilFree(lease: Lease): number {
    // This process may still be the holder, from a term that it lost while the API server was unreachable. No other
    // process has taken the lease.
    if (!lease.spec?.holderIdentity || lease.spec.holderIdentity === identity) return 0;
    const version = lease.metadata.resourceVersion ?? "";
    if (seen?.version !== version) seen = { version, at: performance.now() };
    return seen.at + (lease.spec.leaseDurationSeconds ?? leaseMs / 1000) * 1000 - performance.now();
  }

  /** Writes this process into the lease; undefined if another process was faster. */
  async function take(current: Lease | undefined): Promise<Lease | undefined> {
    const added = (await options.annotate?.(current)) ?? {};
    const now = microTime();
    const spec = {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(leaseMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: (current?.spec?.leaseTransitions ?? 0) + 1,
    };
    const { owner } = options;
    const owners = current?.metadata.ownerReferences ?? [];
    try {
      const metadata = {
        ...(current?.metadata ?? reference),
        ...(Object.keys(added).length > 0 && { annotations: { ...current?.metadata.annotations, ...added } }),
        ...(owner !== undefined && { ownerReferences: [...owners.filter(({ uid }) => uid !== owner.uid), owner] }),
      };
      if (current !== undefined) return await client.replace(leases, { ...current, metadata, spec }, { signal });
      return await client.create(leases, { metadata, spec }, { signal });
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error)) return undefined;
      throw error;
    }
  }

  /** @returns whether the work ended by itself, and not because the term ended */
  async function runTerm(held: { lease: Lease; at: number }): Promise<boolean> {
    let { lease, at: renewedAt } = held;
    const over = new AbortController();
    let isLost = false;
    const term: LeaseTerm = {
      annotations: lease.metadata.annotations ?? {},
      signal: over.signal,
      writeTimeLeftMs: () =>
        over.signal.aborted ? 0 : Math.max(0, renewedAt + stopWritingAfterMs - performance.now()),
    };
    log.info({ lease: leaseName, identity, transitions: lease.spec?.leaseTransitions }, "lease held");
    const renewals = renew();
    try {
      await options.hold(term);
    } catch (error) {
      if (!isLost) throw error;
      log.warn({ lease: leaseName, error }, "work of a lost lease failed");
    } finally {
      over.abort();
      await renewals;
      if (!isLost) await giveBack();
    }
    return !isLost;

    function lose(): void {
      isLost = true;
      over.abort();
    }

    async function renew(): Promise<void> {
      while (!over.signal.aborted) {
        await sleep(Math.min(renewEveryMs, term.writeTimeLeftMs()), over.signal);
        if (over.signal.aborted) return;
        const timeoutMs = term.writeTimeLeftMs();
        if (timeoutMs === 0) {
          log.error({ lease: leaseName, identity }, "lease not renewed in time, lost");
          lose();
          return;
        }
        const at = performance.now();
        try {
          lease = await write({ renewTime: microTime() }, timeoutMs);
          renewedAt = at;
        } catch (error) {
          if (over.signal.aborted) return;
          if (!isConflict(error)) {
            log.warn({ lease: leaseName, error }, "lease not renewed");
            await sleep(Math.min(500, term.writeTimeLeftMs()), over.signal);
            continue;
          }
          // Our renewal may have succeeded although its answer was lost.
          const current = await readLease().catch((cause: unknown) => {
            log.warn({ lease: leaseName, error: cause }, "lease not read");
            return lease;
          });
          if (current?.spec?.holderIdentity === identity) lease = current;
          else lose();
        }
      }
    }

    /**
     * Changes these fields alone. In a cluster restored from a backup, a Lease that another operator has written can
     * have the resourceVersion of the one known here, and its annotations must stay.
     */
    function write(spec: Partial<Lease["spec"]>, timeoutMs: number): Promise<Lease> {
      const body = { metadata: { resourceVersion: lease.metadata.resourceVersion }, spec };
      return client.patch(leases, reference, { type: "merge", body, timeoutMs });
    }

    async function giveBack(): Promise<void> {
      try {
        await write({ holderIdentity: "", renewTime: microTime() }, renewEveryMs);
        log.info({ lease: leaseName, identity }, "lease released");
      } catch (error) {
        log.warn({ lease: leaseName, error }, "lease not released, it expires by itself");
      }
    }
  }

  /** Resolves after the delay, at a change of the lease, or at an abort. */
  function sleep(delayMs: number, aborted: AbortSignal = signal): Promise<void> {
    return new Promise((resolve) => {
      const cancel = systemClock.after(delayMs, finish);
      const ignoreAbort = onAbort(aborted, finish);
      if (aborted === signal) endSleep = finish;
      function finish(): void {
        cancel();
        ignoreAbort();
        resolve();
      }
    });
  }
}

/** The present time as Kubernetes' MicroTime. */
function microTime(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
