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
  /** All namespaces when it is left out. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** @default 500 */
  readonly pageSize?: number | undefined;
  /**
   * Called for everything that happens, in order, as it arrives: store the object, enqueue its key, and return. A list
   * brings all its objects as `added`, also those that were there before, and `deleted` for those that are missing.
   * What it throws is logged.
   */
  readonly onEvent: (event: ListWatchEvent<T>) => void;
  /**
   * The objects that the consumer holds, to find those that a new list lacks; without it they are stored here a second
   * time.
   */
  readonly knownObjects?: (() => Iterable<T>) | undefined;
  /** Whether a list at that resourceVersion cannot show the object as it does. @default none is known not to */
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
   * Resolves when the first list is complete and a watch of what comes after it is open; rejects when there will never
   * be one.
   */
  readonly synced: Promise<void>;
  /** Resolves after the signal; rejects when the cluster's history went back, after which no state can be trusted. */
  readonly done: Promise<void>;
  versions(): Versions;
}

/** How far a list-watch has come, as resourceVersions. */
export interface Versions {
  /** Everything up to here has been handed on. */
  readonly seen: string | undefined;
  /** Nothing after here has been handed on; unlike `seen` it stays where it is while nothing changes. */
  readonly changed: string | undefined;
}

/**
 * Follows a collection for as long as the signal lets it: lists it in pages, watches from there, resumes where a watch
 * ended, and lists again where the server no longer knows what came after.
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
  /** That of the newest list or change. Bookmarks do not move it. */
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

  /** The first page of a list is handed on before the list is whole. */
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
      // A cluster that was restored from a backup: its history is younger than what was seen, and events would be left
      // out.
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
    let troubles = 0;
    for (;;) {
      onState?.(state);
      const outcome = await act(state);
      if ("healthy" in outcome && outcome.healthy) {
        troubles = 0;
        backoff.reset();
      }
      const { state: next, pause } = nextListWatchState(state, outcome, { pageSize });
      if (pause === "always" || (pause === "repeated" && troubles > 0)) await sleep(backoff.next(), { clock, signal });
      if (pause !== "never") troubles += 1;
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
 * Whether the server may have been unreachable and its store restored from a backup: a watch from the former version
 * would then be silent until the restored history reaches it, and would miss the changes before that.
 */
function isAway(error: unknown): boolean {
  return error instanceof NetworkError || (error instanceof ApiError && error.status >= 500);
}

const eventTypes = { ADDED: "added", MODIFIED: "modified", DELETED: "deleted" } as const;

export interface ListWatchTimings {
  /** A large page of large objects on a busy server takes longer than any other call. @default 60000 */
  readonly pageTimeoutMs: number;
  /**
   * How long the server is asked to keep a watch open; each watch a quarter less to a quarter more. It bounds how long
   * a dead stream goes unnoticed, and costs one request each time. @default 120
   */
  readonly watchTimeoutSeconds: number;
  /** A stream that is silent for so long beyond that time is dead. @default 15000 */
  readonly silenceMarginMs: number;
  /** A watch that lasted so long was healthy: delays start over. @default 1000 */
  readonly healthyAfterMs: number;
  /** The first delay after a failure; it doubles from one to the next. @default 800 */
  readonly backoffMs: number;
  /** Limit of the wait after the server has come back, during which no client is served. @default 5000 */
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
