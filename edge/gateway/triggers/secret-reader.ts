import { secrets } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { type Informer, startInformer } from "../../../crds/client/watch/informer.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import type { Log } from "../../../crds/log.ts";
import type { SecretReference } from "../../../crds/schema/schema.ts";
import { type SecretPolicy, secretRefusal } from "../../../crds/secret-refusal.ts";
import { createFreshness, type Freshness } from "../../cluster/freshness.ts";

/**
 * A Secret's value is missing, or not allowed for triggers; the message says what to change, and never contains a
 * value.
 */
export class SecretError extends Error {
  override readonly name = "SecretError";
  /** A person who may write Secrets must fix it; a stack trace would not help. */
  readonly expected = true;
  /** Whether the Secret does not exist: it may be applied after its trigger. */
  readonly isAbsent: boolean;

  constructor(message: string, { isAbsent = false }: { isAbsent?: boolean } = {}) {
    super(message);
    this.isAbsent = isAbsent;
  }
}

/** Reads Secrets for one trigger. */
export interface SecretReader {
  /**
   * Reads a value, and calls `onChange` whenever it differs from the last read, is deleted or created again, or becomes
   * unreadable for another reason. If a value is read several times, the last `onChange` is called.
   *
   * @throws SecretError if it is missing, or triggers may not use the Secret; ApiError, NetworkError if the API server
   * cannot be asked
   */
  read(ref: SecretReference, options?: { onChange?: (() => void) | undefined; signal?: AbortSignal }): Promise<string>;
  /** Ends the watches that no other reader uses. */
  close(): void;
}

interface Watched {
  readonly informer: Informer<Secret, never>;
  readonly freshness: Freshness;
  readonly stop: AbortController;
  readonly listeners: Set<() => void>;
  users: number;
}

const TIMEOUT_MS = 10_000;

/**
 * Returns a function that opens readers of Secrets, with a callback for any change of a value that was read. A Secret
 * is read on first use, then watched, and answered from the cache while that is fresh. The last reader that closes ends
 * the watch.
 */
export function createSecretReaders(options: {
  client: ClusterClient;
  cluster: Cluster;
  namespace: string;
  policy: SecretPolicy;
  clock: Clock;
  log: Log;
}): (onAnyChange: () => void) => SecretReader {
  const { client, cluster, namespace, policy, clock, log } = options;
  const watched = new Map<string, Watched>();

  /** The value that a trigger may use, or why there is none. */
  function allowedValue({ name, key }: SecretReference, secret: Secret | undefined): string | SecretError {
    const refusal = secretRefusal({ name, secret, use: "trigger", policy });
    if (refusal !== undefined) return new SecretError(refusal);
    const missing = `Secret ${name} does not exist; create it with the key ${key}`;
    if (secret === undefined) return new SecretError(missing, { isAbsent: true });
    return valueUnder(secret, key) ?? new SecretError(`Secret ${name} has no value under the key ${key}; add it`);
  }

  function watch(name: string): Watched {
    const known = watched.get(name);
    if (known !== undefined) return known;
    const stop = new AbortController();
    const freshness = createFreshness(clock);
    const listeners = new Set<() => void>();
    const informer = startInformer<Secret>({
      client,
      resource: secrets,
      namespace,
      fieldSelector: `metadata.name=${name}`,
      indexes: {},
      onChange() {
        for (const listener of [...listeners]) {
          try {
            listener();
          } catch (error) {
            log.error({ secret: name, error }, "secret change handler failed");
          }
        }
      },
      onState: freshness.onState,
      signal: stop.signal,
      log,
    });
    // The reads report to the trigger that needs the Secret.
    for (const promise of [informer.synced, informer.done]) {
      promise.catch((error: unknown) => {
        if (!stop.signal.aborted) log.warn({ secret: name, error }, "secret watch ended");
      });
    }
    const entry = { informer, freshness, stop, listeners, users: 0 };
    watched.set(name, entry);
    return entry;
  }

  return (onAnyChange) => {
    const mine = new Map<string, Watched>();
    const ends = new Map<string, () => void>();
    const callbacks = new Map<string, () => void>();
    const lastRead = new Map<string, string | SecretError>();
    let closed = false;

    function use(name: string): Watched {
      const known = mine.get(name);
      if (known !== undefined) return known;
      const entry = watch(name);
      entry.users += 1;
      mine.set(name, entry);
      return entry;
    }

    function listen(ref: SecretReference, key: string): void {
      if (closed || ends.has(key)) return;
      const { informer, listeners } = use(ref.name);
      const listener = (): void => {
        const now = allowedValue(ref, informer.store.get({ namespace, name: ref.name }));
        if (isSame(now, lastRead.get(key))) return;
        lastRead.set(key, now);
        onAnyChange();
        callbacks.get(key)?.();
      };
      listeners.add(listener);
      ends.set(key, () => listeners.delete(listener));
    }

    async function current(name: string, signal: AbortSignal | undefined): Promise<Secret | undefined> {
      const { informer, freshness } = use(name);
      if (freshness.isFresh()) return informer.store.get({ namespace, name });
      return cluster(secrets).named(name).find({ signal, timeoutMs: TIMEOUT_MS });
    }

    return {
      async read(ref, { onChange, signal } = {}) {
        if (closed) throw new Error("Cannot read a Secret: the trigger is no longer served");
        const key = `${ref.name}/${ref.key}`;
        const secret = await current(ref.name, signal);
        const value = allowedValue(ref, secret);
        lastRead.set(key, value);
        if (onChange !== undefined) callbacks.set(key, onChange);
        listen(ref, key);
        if (value instanceof SecretError) throw value;
        return value;
      },
      close() {
        closed = true;
        for (const end of ends.values()) end();
        for (const [name, entry] of mine) {
          entry.users -= 1;
          if (entry.users > 0) continue;
          entry.stop.abort();
          watched.delete(name);
        }
        mine.clear();
      },
    };
  };
}

/** Whether the value, or the reason for its absence, is the same. */
function isSame(one: string | SecretError, other: string | SecretError | undefined): boolean {
  return one instanceof SecretError && other instanceof SecretError ? one.message === other.message : one === other;
}

function valueUnder(secret: Secret | undefined, key: string): string | undefined {
  const encoded = secret?.data !== undefined && Object.hasOwn(secret.data, key) ? secret.data[key] : undefined;
  return encoded ? Buffer.from(encoded, "base64").toString("utf8") : undefined;
}
