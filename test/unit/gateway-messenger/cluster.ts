import type { Clock } from "../../../crds/client/clock.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Trigger, TriggerConfig, TriggerSpec } from "../../../crds/trigger.ts";
import { onAbort, sleep } from "../../../crds/waits.ts";
import { SecretError } from "../../../edge/gateway/triggers/secret-reader.ts";
import { createTriggerState, type TriggerState } from "../../../edge/gateway/triggers/trigger-state.ts";
import { MemoryApi } from "../memory-api.ts";

/** As `crds/client/hold-lease.ts` has it: renewed at a quarter, written under no longer than three quarters. */
const LEASE_MS = 10_000;
const RENEW_EVERY_MS = LEASE_MS / 4;
const STOP_AFTER_MS = (LEASE_MS * 3) / 4;

/** What outlives the processes of the gateway: triggers with their states, Secrets and Leases. */
export class MemoryCluster {
  readonly clock: Clock;
  readonly #api = new MemoryApi("tenancy");
  readonly #secrets = new Map<string, string>();
  readonly #watchers = new Set<() => void>();
  readonly #leases = new Map<string, { holder: object; until: number }>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  secret(value: string | undefined, name = "bot"): void {
    if (value === undefined) this.#secrets.delete(name);
    else this.#secrets.set(name, value);
    for (const changed of [...this.#watchers]) changed();
  }

  readSecret(name: string): string {
    const value = this.#secrets.get(name);
    if (value === undefined) throw new SecretError(`Secret "${name}" does not exist`, { isAbsent: true });
    return value;
  }

  watchSecrets(onChange: () => void): void {
    this.#watchers.add(onChange);
  }

  unwatchSecrets(onChange: () => void): void {
    this.#watchers.delete(onChange);
  }

  /** The trigger's state, as one process reads and writes it. */
  open(trigger: Trigger): TriggerState {
    const api = this.#api;
    const { name } = trigger.metadata;
    const present = api.has(triggers, name) ? api.read(triggers, name) : api.add(triggers, trigger);
    return createTriggerState({ cluster: api.cluster, trigger: present });
  }

  kept(trigger: string): { state: Record<string, unknown> } {
    return { state: this.#api.read(triggers, trigger).status?.state ?? {} };
  }

  /** Every write of a state, as JSON. */
  get written(): string[] {
    return this.#api.calls.flatMap(({ verb, body }) => (verb === "patch" ? [JSON.stringify(body)] : []));
  }

  /** The trigger is deleted, and its state with it. */
  remove(trigger: string): void {
    this.#api.remove(triggers, trigger);
  }

  /** Somebody writes another part of the trigger's status. */
  touch(trigger: string): void {
    this.#api.add(triggers, this.#api.read(triggers, trigger));
  }

  /** Takes or renews the Lease where nobody else holds it. */
  take(lease: string, holder: object): boolean {
    const held = this.#leases.get(lease);
    if (held !== undefined && held.holder !== holder && held.until > this.clock.now()) return false;
    this.#leases.set(lease, { holder, until: this.clock.now() + LEASE_MS });
    return true;
  }

  release(lease: string, holder: object): void {
    if (this.#leases.get(lease)?.holder === holder) this.#leases.delete(lease);
  }

  leaseNames(): string[] {
    return [...this.#leases.keys()];
  }
}

/**
 * Holds the Lease as the gateway does, by a clock that a test moves; the real one is tried in
 * `test/cluster/gateway/adapter-context.test.ts`.
 */
export async function holdLease(options: {
  cluster: MemoryCluster;
  lease: string;
  holder: object;
  clock: Clock;
  signal: AbortSignal;
  /** Whether the API server can be reached. */
  reachable: () => boolean;
  work: (signal: AbortSignal) => Promise<void>;
}): Promise<void> {
  const { cluster, lease, holder, clock, signal, reachable, work } = options;
  while (!(reachable() && cluster.take(lease, holder))) await sleep(2_000, { clock, signal });
  const lost = new AbortController();
  const ignoreAbort = onAbort(signal, () => lost.abort(signal.reason));
  let renewedAt = clock.now();
  let cancel: () => void = () => undefined;
  const renew = () => {
    if (reachable() && cluster.take(lease, holder)) renewedAt = clock.now();
    else if (clock.now() - renewedAt >= STOP_AFTER_MS) return lost.abort(new Error("the Lease is lost"));
    cancel = clock.after(RENEW_EVERY_MS, renew);
  };
  cancel = clock.after(RENEW_EVERY_MS, renew);
  try {
    await work(lost.signal);
  } finally {
    cancel();
    ignoreAbort();
    if (reachable()) cluster.release(lease, holder);
  }
}

export function messengerTrigger(options: {
  name?: string;
  createdAt?: string;
  secret?: string;
  config?: Partial<TriggerConfig>;
  tenant?: TriggerSpec["tenant"];
}): Trigger {
  const { name = "bot", createdAt = "2026-01-01T00:00:00Z", secret = "bot", config } = options;
  const { tenant = { from: "chatId", prefix: "tg" } } = options;
  return {
    apiVersion: "tenancy.dev/v1alpha1",
    kind: "TenancyTrigger",
    metadata: { name, namespace: "tenancy", creationTimestamp: createdAt },
    spec: {
      type: "messenger",
      workloadRef: "app",
      tenant,
      config: {
        botTokenSecretRef: { name: secret, key: "token" },
        apiBaseUrl: "http://messenger.test",
        ...config,
      },
    },
  } as Trigger;
}
