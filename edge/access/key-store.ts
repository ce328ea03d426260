import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { secrets } from "../../crds/client/built-in-resources.ts";
import type { Clock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { type Change, type Informer, startInformer } from "../../crds/client/watch/informer.ts";
import type { Secret } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import { createFreshness, requireFresh } from "../cluster/freshness.ts";
import type { Actor } from "./actor.ts";
import { KEY_LABEL_SELECTOR, type KeyRecord, keySecretName, readKeySecret } from "./key-record.ts";
import { parseKeyText } from "./key-text.ts";

/** The keys besides TENANCY_API_KEY. */
export interface KeyStore {
  readonly namespace: string;
  /**
   * Who has the key: the same object for each call until the key is deleted, changed or has expired. Undefined for any
   * other text.
   *
   * @throws HttpError 503 for a text of a key while the keys may be stale
   */
  actorOf(text: string): Actor | undefined;
  /** The actor with that `ref`, as {@link actorOf}. @throws HttpError 503 while the keys may be stale */
  actorWithRef(ref: string): Actor | undefined;
  /** Whether the key with that `ref` is valid; undefined while the keys may be stale. */
  holds(ref: string): boolean | undefined;
  /** All keys, also expired ones, sorted by id. @throws HttpError 503 while they may be stale */
  list(): readonly KeyRecord[];
  /** Whether the keys have been read. */
  isKnown(): boolean;
  /** Whether requests may be sent to this process: the keys have been read once, or could not be for a minute. */
  isReady(): boolean;
  /** Shows a created Secret before the watch does. */
  add(secret: Secret): void;
  /** Ends the key of a deleted Secret before the watch does. */
  end(secret: Pick<Secret, "metadata">): void;
  /** Settles when the watch has ended; rejects if it cannot be resumed. */
  readonly done: Promise<void>;
}

/** What finds out who sends a request. */
export type Keys = Pick<KeyStore, "actorOf" | "actorWithRef">;

/** A Secret without its content. */
interface KeySecret extends Secret {
  readonly read?: KeyRecord | string;
}

type KeyInformer = Pick<Informer<KeySecret, never>, "store" | "synced" | "done" | "put" | "subscribe">;

/**
 * Watches the Secrets of keys. Calls are answered from memory.
 *
 * @param options.timeOfDay the time for `expiresAt`. @default the clock's
 */
export function watchKeys(options: {
  client: ClusterClient;
  namespace: string;
  signal: AbortSignal;
  log: Log;
  clock: Clock;
  timeOfDay?: () => number;
}): KeyStore {
  const freshness = createFreshness(options.clock);
  const informer = startInformer<KeySecret>({
    ...options,
    resource: secrets,
    labelSelector: KEY_LABEL_SELECTOR,
    indexes: {},
    transform: withoutContent,
    onState: freshness.onState,
    timings: TIMINGS,
  });
  return createKeyStore({ ...options, informer, isFresh: freshness.isFresh });
}

/** Stores the key instead of the Secret's content. */
export function withoutContent(secret: KeySecret): KeySecret {
  const { name, namespace = "", uid = "", resourceVersion = "" } = secret.metadata;
  return { metadata: { name, namespace, uid, resourceVersion }, read: readKeySecret(secret) };
}

/** A network that drops everything without a word hides a deleted key for at most 35 s. */
const TIMINGS = { watchTimeoutSeconds: 20, silenceMarginMs: 10_000 };

/** How long an edge stays unready at its start because it cannot read the keys. */
const READY_MS = 60_000;

/** Timers of a runtime count at most 2^31 ms; clocks drift. */
const MAX_TIMER_MS = 3_600_000;

/** @param options.informer with the transform {@link withoutContent} */
export function createKeyStore(options: {
  informer: KeyInformer;
  isFresh: () => boolean;
  namespace: string;
  clock: Clock;
  timeOfDay?: () => number;
  log: Log;
}): KeyStore {
  const { informer, namespace, clock, log, timeOfDay = clock.now } = options;
  const { store } = informer;
  /** For unknown ids, so that their calls take as long. */
  const decoy = randomBytes(32);
  /** The keys in use, by the name of their Secret. */
  const actors = new Map<string, { actor: Actor; end: () => void }>();
  /** Uids of deleted Secrets that the watch still shows. */
  const deleted = new Set<string>();
  let isKnown = false;
  let isOver = false;
  // A rolling update must not send keys to a replica that answers all of them with 503. It waits for the first list
  // only: TENANCY_API_KEY needs no keys, and an outage of the API server, which all replicas see at once, must not end
  // the readiness of all because of them. It waits for a limited time, so that a missing right or namespace does not
  // close the service to TENANCY_API_KEY, with which one looks for the cause.
  let isReady = false;
  const cancelWait = clock.after(READY_MS, () => {
    isReady = true;
    const problem = `keys get 503 until Secrets of namespace ${namespace} can be listed: apply manifests/keys`;
    log.error({ namespace, problem }, "the keys could not be read in time");
  });

  informer.subscribe(onChange);
  informer.synced.then(
    () => {
      isKnown = true;
      isReady = true;
      cancelWait();
    },
    () => undefined,
  );
  informer.done
    .catch((error: unknown) => log.error({ namespace, error }, "the watch of keys ended"))
    .then(() => {
      isOver = true;
      cancelWait();
      for (const { end } of [...actors.values()]) end();
    });
  const freshness = { isFresh: () => isKnown && !isOver && options.isFresh() };

  function onChange({ type, object, previous }: Change<KeySecret>): void {
    const { name, uid = "" } = object.metadata;
    const [now, before] = [type === "deleted" ? undefined : object.read, previous?.read];
    if (type === "deleted") deleted.delete(uid);
    // A change of other labels, for example, ends nothing.
    const isSame = uid === (previous?.metadata.uid ?? uid) && JSON.stringify(now) === JSON.stringify(before);
    if (isSame) return;
    actors.get(name)?.end();
    if (typeof now === "string") log.warn({ namespace, secret: name, problem: now }, "secret is no key");
  }

  function recordOf({ metadata, read }: KeySecret): KeyRecord | undefined {
    return typeof read === "string" || deleted.has(metadata.uid ?? "") ? undefined : read;
  }

  function find(id: string): KeyRecord | undefined {
    const secret = store.get({ namespace, name: keySecretName(id) });
    return secret && recordOf(secret);
  }

  function findByRef(ref: string): KeyRecord | undefined {
    const record = find(ref.slice(0, ref.indexOf("-")));
    return record !== undefined && refOf(record) === ref ? record : undefined;
  }

  /** The key's id, and a digest of everything that decides what it may do. */
  function refOf({ id, sha256, role, tenants, workloads }: KeyRecord): string {
    const uid = store.get({ namespace, name: keySecretName(id) })?.metadata.uid;
    // Without workloads as before there were any, so that an upgrade ends no session and no link.
    const decides = [uid, sha256, role, tenants, ...(workloads === undefined ? [] : [workloads])];
    return `${id}-${hash("sha256", JSON.stringify(decides)).slice(0, 32)}`;
  }

  function actorFor(record: KeyRecord): Actor {
    const { id, role, tenants, workloads, requestsPerSecond, expiresAt } = record;
    const name = keySecretName(id);
    const known = actors.get(name);
    if (known !== undefined) return known.actor;
    const ended = new AbortController();
    let cancel = (): void => undefined;
    const end = (): void => {
      cancel();
      actors.delete(name);
      ended.abort(new Error("the key has ended"));
    };
    const waitForExpiry = (at: number): void => {
      const left = at - timeOfDay();
      if (left <= 0) end();
      else cancel = clock.after(Math.min(left, MAX_TIMER_MS), () => waitForExpiry(at));
    };
    const reach = { role, tenants, workloads, requestsPerSecond };
    const actor: Actor = { kind: "key", id, ref: refOf(record), ...reach, ended: ended.signal };
    actors.set(name, { actor, end });
    if (expiresAt !== undefined) waitForExpiry(Date.parse(expiresAt));
    return actor;
  }

  function currentActor(record: KeyRecord): Actor | undefined {
    if (!isExpired(record, timeOfDay())) return actorFor(record);
    // A timer can be late.
    actors.get(keySecretName(record.id))?.end();
    return undefined;
  }

  return {
    namespace,
    actorOf(text) {
      const key = parseKeyText(text);
      if (key === undefined) return undefined;
      requireFresh(freshness);
      const record = find(key.id);
      const expected = record === undefined ? decoy : Buffer.from(record.sha256, "hex");
      if (!timingSafeEqual(key.digest, expected) || record === undefined) return undefined;
      return currentActor(record);
    },
    actorWithRef(ref) {
      requireFresh(freshness);
      const record = findByRef(ref);
      return record && currentActor(record);
    },
    holds(ref) {
      if (!freshness.isFresh()) return undefined;
      const record = findByRef(ref);
      return record !== undefined && !isExpired(record, timeOfDay());
    },
    list() {
      requireFresh(freshness);
      const records = [...store.values()].flatMap((secret) => recordOf(secret) ?? []);
      return records.sort((a, b) => (a.id < b.id ? -1 : 1));
    },
    isKnown: () => isKnown,
    isReady: () => isReady,
    add: informer.put,
    end({ metadata: { name, uid = "" } }) {
      if (store.get({ namespace, name })?.metadata.uid !== uid) return;
      deleted.add(uid);
      actors.get(name)?.end();
    },
    done: informer.done,
  };
}

function isExpired({ expiresAt }: KeyRecord, now: number): boolean {
  return expiresAt !== undefined && Date.parse(expiresAt) <= now;
}
