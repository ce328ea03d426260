import { onAbort } from "../../../crds/waits.ts";

/** Too many events of a trigger wait already, and no tenant has more of them than this event's. */
export class TooManyWaiting extends Error {
  override readonly name = "TooManyWaiting";

  constructor() {
    super("too many events wait for their turn already; try again later");
  }
}

/** Bounds how many events are in flight. */
export interface Turns {
  /**
   * Waits for a place among a tenant's events, a trigger's and all; the function it returns gives the place back.
   *
   * @param event.tenant left out where all events of the trigger are one tenant's
   * @throws TooManyWaiting, also later on, for another tenant's event; the signal's reason when it is aborted first
   */
  take(event: { trigger: string; tenant?: string | undefined }, signal: AbortSignal): Promise<() => void>;
  readonly inFlight: number;
  readonly waiting: number;
}

interface Waiting {
  enter(): void;
  drop(): void;
}

interface TenantLine {
  readonly trigger: string;
  readonly tenant: string;
  /** How many may be in flight. */
  readonly most: number;
  inFlight: number;
  readonly waiting: Set<Waiting>;
}

interface Line {
  inFlight: number;
  waiting: number;
  /** In the order in which the tenants were last served: the one that waited longest comes first. */
  readonly tenants: Map<string, TenantLine>;
}

/**
 * Makes a bound of `perTenant` events for each tenant of a trigger, of `perTrigger` for each trigger and of `inAll` for all: first come, first
 * served within a tenant; the tenants that wait take turns within their trigger, and so do the triggers, so that a busy one does
 * not hold the others up.
 *
 * Of each trigger's events `maxWaiting` may wait. Beyond that the tenant with the most of them gives up its newest for another tenant's.
 */
export function createTurns(options: {
  perTenant: number;
  perTrigger: number;
  inAll: number;
  maxWaiting: number;
}): Turns {
  const { perTenant, perTrigger, inAll, maxWaiting } = options;
  // In the order in which the triggers were last served.
  const lines = new Map<string, Line>();
  let inFlight = 0;
  let waiting = 0;

  function find(trigger: string, tenant: string | undefined): { line: Line; own: TenantLine } {
    const line = lines.get(trigger) ?? { inFlight: 0, waiting: 0, tenants: new Map<string, TenantLine>() };
    lines.set(trigger, line);
    const key = tenant ?? "";
    const most = tenant === undefined ? perTrigger : perTenant;
    const own = line.tenants.get(key) ?? { trigger, tenant: key, most, inFlight: 0, waiting: new Set() };
    line.tenants.set(key, own);
    return { line, own };
  }

  function forget(line: Line, { trigger, tenant, inFlight, waiting }: TenantLine): void {
    if (inFlight === 0 && waiting.size === 0) line.tenants.delete(tenant);
    if (line.tenants.size === 0) lines.delete(trigger);
  }

  function enter(line: Line, own: TenantLine): () => void {
    own.inFlight += 1;
    line.inFlight += 1;
    inFlight += 1;
    line.tenants.delete(own.tenant);
    line.tenants.set(own.tenant, own);
    lines.delete(own.trigger);
    lines.set(own.trigger, line);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      own.inFlight -= 1;
      line.inFlight -= 1;
      inFlight -= 1;
      forget(line, own);
      serve();
    };
  }

  function serve(): void {
    for (const line of lines.values()) {
      if (inFlight >= inAll) return;
      if (line.inFlight >= perTrigger) continue;
      for (const own of line.tenants.values()) {
        const [next] = own.waiting;
        if (next === undefined || own.inFlight >= own.most) continue;
        next.enter();
        serve();
        return;
      }
    }
  }

  function makeRoom(line: Line, own: TenantLine): void {
    const [longest] = [...line.tenants.values()].sort((a, b) => b.waiting.size - a.waiting.size);
    if (longest === undefined || longest.waiting.size <= own.waiting.size + 1) throw new TooManyWaiting();
    [...longest.waiting].at(-1)?.drop();
  }

  function wait(line: Line, own: TenantLine, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        enter() {
          end();
          resolve(enter(line, own));
        },
        drop: () => giveUp(new TooManyWaiting()),
      };
      const ignoreAbort = onAbort(signal, () => giveUp(signal.reason));
      own.waiting.add(entry);
      line.waiting += 1;
      waiting += 1;

      function end(): void {
        own.waiting.delete(entry);
        line.waiting -= 1;
        waiting -= 1;
        ignoreAbort();
      }

      function giveUp(reason: unknown): void {
        end();
        forget(line, own);
        reject(reason);
      }
    });
  }

  return {
    async take({ trigger, tenant }, signal) {
      signal.throwIfAborted();
      const { line, own } = find(trigger, tenant);
      if (inFlight < inAll && line.inFlight < perTrigger && own.inFlight < own.most) return enter(line, own);
      try {
        if (line.waiting >= maxWaiting) makeRoom(line, own);
      } catch (error) {
        forget(line, own);
        throw error;
      }
      return wait(line, own, signal);
    },
    get inFlight() {
      return inFlight;
    },
    get waiting() {
      return waiting;
    },
  };
}
