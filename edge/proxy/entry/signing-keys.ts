import { createSecretKey, type KeyObject } from "node:crypto";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { startInformer } from "../../../crds/client/watch/informer.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import type { Log } from "../../../crds/log.ts";
import { LINK_KEYS_SECRET } from "../../../crds/secret-refusal.ts";

/** The current keys for links, from their Secret. */
export interface SigningKeys {
  /** Newest first; empty if the Secret is missing or invalid. */
  current(): readonly KeyObject[];
  /** Why there are none, for the operator of the service. */
  problem(): string | undefined;
  /** Whether the Secret has been read. */
  isKnown(): boolean;
}

const MAX_KEYS = 2;
const MIN_BYTES = 32;

/**
 * Watches the Secret of the keys. Every entry is a key; the last by name signs, and all verify. To replace a key, add
 * one, and remove the old one when the last link that it signed has expired.
 */
export function watchSigningKeys(options: {
  client: ClusterClient;
  namespace: string;
  signal: AbortSignal;
  log: Log;
}): SigningKeys {
  const { client, namespace, signal, log } = options;
  let read: ReturnType<typeof readKeys> = readKeys(undefined);
  let isKnown = false;

  function look(): void {
    const before = read.problem;
    read = readKeys(store.get({ namespace, name: LINK_KEYS_SECRET }));
    if (isKnown && read.problem !== before && read.problem !== undefined)
      log.error({ secret: LINK_KEYS_SECRET, problem: read.problem }, "link keys unusable; links are disabled");
  }

  const { store, synced, done } = startInformer<Secret>({
    client,
    resource: secrets,
    namespace,
    fieldSelector: `metadata.name=${LINK_KEYS_SECRET}`,
    indexes: {},
    onChange: look,
    signal,
    log,
  });
  synced.then(
    () => {
      isKnown = true;
      // Treated as missing: a front door without links needs no keys.
      read = readKeys(undefined);
      look();
    },
    () => undefined,
  );
  done.catch((error: unknown) => {
    if (!signal.aborted) log.error({ secret: LINK_KEYS_SECRET, error }, "the watch of the keys of links ended");
  });

  return { current: () => read.keys, problem: () => read.problem, isKnown: () => isKnown };
}

const MISSING = `Secret ${LINK_KEYS_SECRET} does not exist: create it with one key of at least ${MIN_BYTES} bytes`;

/** The keys of a Secret. One invalid key makes all unusable; otherwise no one would notice that it is not in use. */
export function readKeys(secret: Pick<Secret, "data"> | undefined): {
  readonly keys: readonly KeyObject[];
  readonly problem: string | undefined;
} {
  const entries = Object.entries(secret?.data ?? {}).sort(([a], [b]) => (a < b ? 1 : -1));
  if (entries.length === 0) return { keys: [], problem: MISSING };
  if (entries.length > MAX_KEYS) {
    return { keys: [], problem: `Secret ${LINK_KEYS_SECRET} has ${entries.length} keys: keep the newest ${MAX_KEYS}` };
  }
  const keys: KeyObject[] = [];
  for (const [name, encoded] of entries) {
    const bytes = Buffer.from(encoded, "base64");
    if (bytes.length < MIN_BYTES) {
      const problem = `key ${name} of Secret ${LINK_KEYS_SECRET} has ${bytes.length} bytes: give it at least ${MIN_BYTES}`;
      return { keys: [], problem };
    }
    keys.push(createSecretKey(bytes));
  }
  return { keys, problem: undefined };
}
