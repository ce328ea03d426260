import { onAbort } from "../../../crds/waits.ts";

/** Too many events of a trigger are waiting, and no tenant has more of them than this event's. */
export class TooManyWaiting extends Error {
  override readonly name = "TooManyWaiting";

  constructor() {
    super("too many events are waiting; try again later");
  }
}

/** Limits the number of events in flight. */
export interface EventSlots {
  /**
   * Waits for a slot of a tenant, of a trigger and of all; returns a function that releases it.
   *
   * @param event.tenant omitted if all events of the trigger belong to one tenant
   * @throws TooManyWaiting, also later, in favour of another tenant's event; the signal's reason when it is aborted
   * first
   */
  acquire(event: { trigger: string; tenant?: string | undefined }, signal: AbortSignal): Promise<() => void>;
  readonly inFlight: number;
  readonly waiting: number;
}

interface Waiting {
  start(): void;
  drop(): void;
}

interface TenantQueue {
  readonly trigger: string;
  readonly tenant: string;
  /** Maximum in flight. */
  readonly limit: number;
  inFlight: number;
  readonly waiting: Set<Waiting>;
}

interface TriggerQueue {
  inFlight: number;
  waiting: number;
  /** Ordered by when the tenants were last served: the one that has waited longest comes first. */
  readonly tenants: Map<string, TenantQueue>;
}

/**
 * Makes `perTenant` slots for each tenant of a trigger, `perTrigger` for each trigger and `inAll` in total: first come,
 * first served within a tenant, round robin between the tenants of a trigger and between triggers, so that a busy one
 * does not delay the others.
 *
 * Of each trigger's events `maxWaiting` may wait. Beyond that the tenant with the most loses its newest one to another
 * tenant's event.
 */
export function createEventSlots(options: {
  perTenant: number;
  perTrigger: number;
  inAll: number;
  maxWaiting: number;
}): EventSlots {
  const { perTenant, perTrigger, inAll, maxWaiting } = options;
  // Ordered by when the triggers were last served.
  const queues = new Map<string, TriggerQueue>();
  let inFlight = 0;
  let waiting = 0;

  function find(trigger: string, tenant: string | undefined): { queue: TriggerQueue; own: TenantQueue } {
    const queue = queues.get(trigger) ?? { inFlight: 0, waiting: 0, tenants: new Map<string, TenantQueue>() };
    queues.set(trigger, queue);
    const key = tenant ?? "";
    const limit = tenant === undefined ? perTrigger : perTenant;
    const own = queue.tenants.get(key) ?? { trigger, tenant: key, limit, inFlight: 0, waiting: new Set() };
    queue.tenants.set(key, own);
    return { queue, own };
  }

  function removeIfIdle(queue: TriggerQueue, { trigger, tenant, inFlight, waiting }: TenantQueue): void {
    if (inFlight === 0 && waiting.size === 0) queue.tenants.delete(tenant);
    if (queue.tenants.size === 0) queues.delete(trigger);
  }

  function start(queue: TriggerQueue, own: TenantQueue): () => void {
    own.inFlight += 1;
    queue.inFlight += 1;
    inFlight += 1;
    queue.tenants.delete(own.tenant);
    queue.tenants.set(own.tenant, own);
    queues.delete(own.trigger);
    queues.set(own.trigger, queue);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      own.inFlight -= 1;
      queue.inFlight -= 1;
      inFlight -= 1;
      removeIfIdle(queue, own);
      startNext();
    };
  }

  function startNext(): void {
    for (const queue of queues.values()) {
      if (inFlight >= inAll) return;
      if (queue.inFlight >= perTrigger) continue;
      for (const own of queue.tenants.values()) {
        const [next] = own.waiting;
        if (next === undefined || own.inFlight >= own.limit) continue;
        next.start();
        startNext();
        return;
      }
    }
  }

  function evict(queue: TriggerQueue, own: TenantQueue): void {
    const [longest] = [...queue.tenants.values()].sort((a, b) => b.waiting.size - a.waiting.size);
    if (longest === undefined || longest.waiting.size <= own.waiting.size + 1) throw new TooManyWaiting();
    [...longest.waiting].at(-1)?.drop();
  }

  function enqueue(queue: TriggerQueue, own: TenantQueue, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        start() {
          end();
          resolve(start(queue, own));
        },
        drop: () => fail(new TooManyWaiting()),
      };
      const ignoreAbort = onAbort(signal, () => fail(signal.reason));
      own.waiting.add(entry);
      queue.waiting += 1;
      waiting += 1;

      function end(): void {
        own.waiting.delete(entry);
        queue.waiting -= 1;
        waiting -= 1;
        ignoreAbort();
      }

      function fail(reason: unknown): void {
        end();
        removeIfIdle(queue, own);
        reject(reason);
      }
    });
  }

  return {
    async acquire({ trigger, tenant }, signal) {
      signal.throwIfAborted();
      const { queue, own } = find(trigger, tenant);
      if (inFlight < inAll && queue.inFlight < perTrigger && own.inFlight < own.limit) return start(queue, own);
      try {
        if (queue.waiting >= maxWaiting) evict(queue, own);
      } catch (error) {
        removeIfIdle(queue, own);
        throw error;
      }
      return enqueue(queue, own, signal);
    },
    get inFlight() {
      return inFlight;
    },
    get waiting() {
      return waiting;
    },
  };
}
