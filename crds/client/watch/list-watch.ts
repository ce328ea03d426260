import type { KubernetesObject } from "../../kubernetes.ts";
import type { Log } from "../../log.ts";
import type { Resource } from "../../resource.ts";
import { createDeferred, sleep } from "../../waits.ts";
import { ApiError, isExpired, NetworkError } from "../api-error.ts";
import { createBackoff } from "../backoff.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { ClusterClient } from "../cluster-client.ts";
import { dropManagedFields } from "../managed-fields.ts";
import { reportError } from "./handler-failures.ts";
import { type ListWatchOutcome, type ListWatchState, nextListWatchState } from "./list-watch-state.ts";
import { createListing, HistoryError } from "./listing.ts";
import { compareResourceVersions, keyOf } from "./store.ts";
import { type ObjectEvent, type OpenedWatch, openWatch, readWatchStream } from "./watch-stream.ts";

export type ListWatchEvent<T extends KubernetesObject> =
  | { readonly type: "added" | "modified" | "deleted"; readonly object: T }
  /** The list is complete; emitted again after every new list. */
  | { readonly type: "synced" };

export interface ListWatchOptions<T extends KubernetesObject> {
  readonly client: ClusterClient;
  readonly resource: Resource<T>;
  /** @default all namespaces */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** @default 500 */
  readonly pageSize?: number | undefined;
  /**
   * Called for each event, in order: store the object, enqueue its key, and return. A list emits all its objects as
   * `added`, also known ones, and `deleted` for those that are missing. An error that it throws is logged.
   */
  readonly onEvent: (event: ListWatchEvent<T>) => void;
  /**
   * The consumer's objects, to find those that a new list lacks. Without this option, the list-watch stores them a
   * second time.
   */
  readonly knownObjects?: (() => Iterable<T>) | undefined;
  /** Whether a list at that resourceVersion cannot contain this state of the object. @default never */
  readonly contradicts?: ((object: T, resourceVersion: string) => boolean) | undefined;
  readonly onState?: ((state: ListWatchState) => void) | undefined;
  /** Ends the list-watch: `done` resolves. */
  readonly signal: AbortSignal;
  readonly log?: Log | undefined;
  readonly random?: (() => number) | undefined;
  readonly clock?: Clock | undefined;
  readonly timings?: Partial<ListWatchTimings> | undefined;
}

export interface ListWatch {
  /**
   * Resolves when the first list is complete and its watch is open; rejects if that can never happen.
   */
  readonly synced: Promise<void>;
  /** Resolves after the signal; rejects if the cluster's history went back, after which no state can be trusted. */
  readonly done: Promise<void>;
  versions(): Versions;
}

/** The resourceVersions that a list-watch has reached. */
export interface Versions {
  /** All changes up to this one have been emitted. */
  readonly seen: string | undefined;
  /** The last emitted change. Unlike `seen`, it stays the same while nothing changes. */
  readonly changed: string | undefined;
}

/**
 * Follows a collection until the signal is aborted: lists it in pages, watches from there, resumes where a watch ended,
 * and lists again if the server no longer has the changes after that.
 *
 * Follows https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
export function listWatch<T extends KubernetesObject>(options: ListWatchOptions<T>): ListWatch {
  const { client, resource, signal, log, onState, pageSize = 500, clock = systemClock, random = Math.random } = options;
  const { namespace, labelSelector, fieldSelector } = options;
  const selection = { resource, namespace, labelSelector, fieldSelector };
  const timings = { ...defaultListWatchTimings, ...options.timings };
  const fields = { resource: resource.plural };
  const backoff = createBackoff({ initialMs: timings.backoffMs, maxMs: timings.maxBackoffMs, random });
  const synced = createDeferred<void>();
  const kept = options.knownObjects === undefined ? new Map<string, T>() : undefined;
  const knownObjects = options.knownObjects ?? (() => kept?.values() ?? []);
  const { contradicts = () => false } = options;
  const { pageTimeoutMs } = timings;
  const listing = createListing({ client, selection, signal, knownObjects, contradicts, pageTimeoutMs, onObject });
  /** The newest resourceVersion that the server has shown. */
  let lastResourceVersion: string | undefined;
  /** The resourceVersion of the newest list or change. Bookmarks do not change it. */
  let changedAt: string | undefined;
  let opened: OpenedWatch | undefined;

  function emit(event: ListWatchEvent<T>): void {
    const key = event.type === "synced" ? undefined : keyOf(event.object);
    if (key !== undefined && event.type === "deleted") kept?.delete(key);
    else if (key !== undefined && event.type !== "synced") kept?.set(key, event.object);
    try {
      options.onEvent(event);
    } catch (error) {
      reportError(error, {
        log,
        fields: { ...fields, type: event.type, key },
        message: "the consumer of a watch failed",
      });
    }
  }

  /** Emits each page before the list is complete. */
  function onObject(event: { type: "added" | "deleted"; object: T }, resourceVersion: string): void {
    changedAt = resourceVersion;
    emit(event);
  }

  async function list(state: Extract<ListWatchState, { pageSize: number }>): Promise<ListWatchOutcome> {
    const token = state.kind === "init-page" ? state.continue : undefined;
    if (token === undefined) listing.start();
    try {
      const page = await listing.page({ limit: state.pageSize, continue: token, lastResourceVersion });
      const { resourceVersion } = page;
      if (page.continue) return { kind: "page", resourceVersion, continue: page.continue };
      lastResourceVersion = resourceVersion;
      changedAt = resourceVersion;
      emit({ type: "synced" });
      return { kind: "page", resourceVersion, continue: undefined };
    } catch (error) {
      if (signal.aborted || error instanceof HistoryError) throw error;
      log?.warn({ ...fields, error }, "cannot list");
      return { kind: token !== undefined && isExpired(error) ? "page-expired" : "list-failed" };
    }
  }

  async function open(resourceVersion: string): Promise<ListWatchOutcome> {
    const timeoutSeconds = Math.ceil(timings.watchTimeoutSeconds * (0.75 + random() / 2));
    try {
      opened = await openWatch(client, { selection, resourceVersion, timeoutSeconds, signal });
      synced.resolve();
      return { kind: "watch-opened" };
    } catch (error) {
      if (signal.aborted) throw error;
      log?.warn({ ...fields, error, resourceVersion }, "cannot watch");
      if (isExpired(error)) return { kind: "watch-expired", healthy: false };
      return {
        kind: isAway(error) || (error instanceof ApiError && error.status === 400) ? "watch-broken" : "watch-refused",
      };
    }
  }

  async function watch(from: string): Promise<ListWatchOutcome> {
    if (opened === undefined) throw new Error(`Cannot watch ${resource.plural}: no watch was opened`);
    const { response, path, timeoutSeconds } = opened;
    const maxSilenceMs = timeoutSeconds * 1000 + timings.silenceMarginMs;
    const startedAt = clock.now();
    let resourceVersion = from;

    function onEvent({ type, object }: ObjectEvent<T>): void {
      const version = object.metadata.resourceVersion;
      if (!version) throw new Error(`a ${type} event has no resourceVersion`);
      // The cluster was restored from a backup: its history is behind what this watch has seen, so it would miss
      // events.
      if (type === "BOOKMARK" && (compareResourceVersions(version, resourceVersion) ?? 0) < 0)
        throw new Error(`a bookmark at ${version} came after ${resourceVersion}`);
      if (type !== "BOOKMARK") {
        changedAt = version;
        emit({ type: eventTypes[type], object: dropManagedFields(object) });
      }
      lastResourceVersion = version;
      resourceVersion = version;
    }

    const end = await readWatchStream<T>(response, { onEvent, cut: resource.cut, maxSilenceMs, path, signal, clock });
    const healthy = clock.now() - startedAt >= timings.healthyAfterMs;
    switch (end.kind) {
      case "aborted":
        throw signal.reason;
      case "closed":
        return { kind: "watch-ended", resourceVersion, healthy };
      case "disconnected":
        log?.warn({ ...fields, error: end.error, resourceVersion }, "watch disconnected");
        client.transport.dropIdle();
        return { kind: "watch-ended", resourceVersion, healthy };
      case "error-event":
        log?.warn({ ...fields, error: end.error, resourceVersion }, "watch ended with an error");
        return isExpired(end.error) ? { kind: "watch-expired", healthy } : { kind: "watch-broken" };
      case "decode-error":
        log?.error({ ...fields, error: end.error, resourceVersion }, "watch decode failed");
        return { kind: "watch-broken" };
      default:
        return end satisfies never;
    }
  }

  function act(state: ListWatchState): Promise<ListWatchOutcome> {
    switch (state.kind) {
      case "empty":
      case "init-page":
        return list(state);
      case "init-listed":
        return open(state.resourceVersion);
      case "watching":
        return watch(state.resourceVersion);
      default:
        return state satisfies never;
    }
  }

  async function run(): Promise<void> {
    let state: ListWatchState = { kind: "empty", pageSize };
    let failures = 0;
    for (;;) {
      onState?.(state);
      const outcome = await act(state);
      if ("healthy" in outcome && outcome.healthy) {
        failures = 0;
        backoff.reset();
      }
      const { state: next, pause } = nextListWatchState(state, outcome, { pageSize });
      if (pause === "always" || (pause === "repeated" && failures > 0)) await sleep(backoff.next(), { clock, signal });
      if (pause !== "never") failures += 1;
      state = next;
    }
  }

  const done = run().catch((error: unknown) => {
    synced.reject(error);
    if (!signal.aborted) throw error;
  });
  return { synced: synced.promise, done, versions: () => ({ seen: lastResourceVersion, changed: changedAt }) };
}

/**
 * Whether the server was unreachable, so that etcd may have been restored from a backup. A watch from the last version
 * would then be silent until the restored history reaches it, and would miss the changes before that.
 */
function isAway(error: unknown): boolean {
  return error instanceof NetworkError || (error instanceof ApiError && error.status >= 500);
}

const eventTypes = { ADDED: "added", MODIFIED: "modified", DELETED: "deleted" } as const;

export interface ListWatchTimings {
  /** A large page of large objects from a busy server takes longer than any other call. @default 60000 */
  readonly pageTimeoutMs: number;
  /**
   * The requested duration of a watch; each watch varies it by up to a quarter. It limits how long a dead stream goes
   * unnoticed, and costs one request each time. @default 120
   */
  readonly watchTimeoutSeconds: number;
  /** A stream counts as dead if it is silent for so long after that duration. @default 15000 */
  readonly silenceMarginMs: number;
  /** A watch that lasted so long was healthy: the backoff starts over. @default 1000 */
  readonly healthyAfterMs: number;
  /** The first delay after a failure; each next one doubles. @default 800 */
  readonly backoffMs: number;
  /** The longest delay. After the server is back, clients may wait that long. @default 5000 */
  readonly maxBackoffMs: number;
}

const defaultListWatchTimings: ListWatchTimings = {
  pageTimeoutMs: 60_000,
  watchTimeoutSeconds: 120,
  silenceMarginMs: 15_000,
  healthyAfterMs: 1_000,
  backoffMs: 800,
  maxBackoffMs: 5_000,
};
