import { type CallSettings, type Calls, createCalls, originOf } from "./call.ts";
import { type ClaimBody, type ClaimOptions, claimTenant } from "./claim.ts";
import { type ApiEvent, type EventOptions, followEvents } from "./events.ts";
import { createFiles, type Files } from "./files.ts";
import type { Claim, Instance, ListedClaim, Operations, SnapshotVersion, Usage } from "./operations.ts";
import { instanceOf, type Place } from "./place.ts";
import { createProcesses, type Processes } from "./processes.ts";
import { linesOf } from "./read-stream.ts";
import { collect, createSnapshots, type Snapshots } from "./snapshots.ts";
import { createSockets, type SocketConstructor } from "./socket.ts";

export type { AttachedProcess, AttachOptions, TerminalSize } from "./attach.ts";
export {
  ApiError,
  type CallArguments,
  type CallOptions,
  type CallSettings,
  type Calls,
  type ListName,
  type OperationName,
} from "./call.ts";
export type { ClaimBody, ClaimOptions } from "./claim.ts";
export type { ApiEvent, EventOptions } from "./events.ts";
export type { FilePath, Files, WatchEvent, WriteOptions } from "./files.ts";
export type * from "./operations.ts";
export type { Place } from "./place.ts";
export type {
  KillOptions,
  ProcessEvent,
  Processes,
  ProcessOptions,
  RunOptions,
  RunResult,
  TerminalOptions,
} from "./processes.ts";
export type { Snapshots } from "./snapshots.ts";
export type { SocketConstructor, SocketLike } from "./socket.ts";

interface Abort {
  readonly signal?: AbortSignal | undefined;
}
type Released = Operations["POST /api/v1/tenants/{id}/release"]["answer"];
type Filter<Name extends "GET /api/v1/claims" | "GET /api/v1/instances"> = Omit<
  NonNullable<Operations[Name]["query"]>,
  "limit" | "after"
>;
type UsageQuery = NonNullable<Operations["GET /api/v1/usage"]["query"]>;

export interface LogOptions extends Abort {
  /** Last lines to begin with, at most 100 000. @default 200 */
  readonly tail?: number | undefined;
  /** Whether to go on with what is written. @default false */
  readonly follow?: boolean | undefined;
  /** Whether to read the run before the container's last restart. @default false */
  readonly previous?: boolean | undefined;
}

export interface ClientSettings extends CallSettings {
  /** On Node 20, `WebSocket` of the package `ws`, which is also found if it is installed. @default the runtime's */
  readonly WebSocket?: SocketConstructor | undefined;
}

/** All throw {@link ApiError} for an error of the API, or the reason of a signal that is aborted. */
export interface Client extends Calls {
  /**
   * Claims a workload for a tenant, or joins the claim that exists, and waits until it is `Active`. The answer can be
   * given to the other calls in place of its `instanceId`. Only what the API has not begun is tried again, so there is
   * never a second claim. After an error with the status 504 the claim goes on: call again to keep waiting.
   */
  claim(tenant: string, workload: string, body?: ClaimBody, options?: ClaimOptions): Promise<Claim>;
  /**
   * Releases a claim, which saves its files and deletes its pod.
   *
   * @param options.wait whether to wait until the pod is gone; then the answer has `files` @default false
   * @param options.uid of the claim: 409 if the present claim is another one
   */
  release(tenant: string, workload: string, options?: Abort & { wait?: boolean; uid?: string }): Promise<Released>;
  /** All claims. */
  claims(query?: Filter<"GET /api/v1/claims">, options?: Abort): Promise<ListedClaim[]>;
  /** All instances. */
  instances(query?: Filter<"GET /api/v1/instances">, options?: Abort): Promise<Instance[]>;
  /** Saves the files of an instance while it runs; with a `name` the version stays. */
  checkpoint(
    tenant: string,
    workload: string,
    options?: Abort & { name?: string; uid?: string },
  ): Promise<SnapshotVersion>;
  /** What sessions and snapshots used. */
  usage(query?: UsageQuery, options?: Abort): Promise<Usage[]>;
  /**
   * The lines of an instance's log. With `follow` it goes on until the container ends, the loop is left, or the signal
   * is aborted. Node and Bun end a connection on which nothing came for 5 minutes, which throws an ApiError with the
   * status 0.
   */
  logs(place: Place, options?: LogOptions): AsyncGenerator<string, void>;
  /**
   * Changes of claims and instances as they happen. To keep a list correct, read it again after the type `resync`.
   */
  events(options?: EventOptions): AsyncGenerator<ApiEvent, void>;
  /** As {@link Processes.run}. */
  run: Processes["run"];
  readonly processes: Processes;
  readonly files: Files;
  readonly snapshots: Snapshots;
}

/**
 * Makes a client of the REST API. It runs on Node 20, Bun, Deno and in browsers.
 *
 * ```ts
 * const client = createClient({ url: "http://127.0.0.1:8080", key: process.env.TENANCY_API_KEY });
 * const claim = await client.claim("alice", "hello");
 * const { stdout } = await client.run(claim, ["hostname"]);
 * ```
 *
 * @param settings.signal ends every call of the client
 * @throws TypeError if `url` is no address
 */
export function createClient(settings: ClientSettings): Client {
  const calls = createCalls(settings);
  const { call, send, all }: Calls = calls;
  const { key, signal: ends, WebSocket } = settings;
  const sockets = createSockets({ origin: originOf(settings.url), key, signal: ends, WebSocket });
  const processes = createProcesses({ calls, sockets, ends });

  return {
    ...{ call, send, all },
    claim: (tenant, workload, body, options = {}) => claimTenant({ tenant, workload, body }, { call, ...options }),
    release: (id, workload, { wait, uid, signal } = {}) =>
      call("POST /api/v1/tenants/{id}/release", {
        ...{ path: { id }, query: { wait }, signal },
        body: { workload, ...(uid !== undefined && { uid }) },
      }),
    claims: (query = {}, { signal } = {}) => collect(all("GET /api/v1/claims", { query, signal })),
    // Without a limit all of them come at once.
    instances: (query = {}, { signal } = {}) =>
      collect(all("GET /api/v1/instances", { query: { ...query, limit: 1000 }, signal })),
    checkpoint: (id, workload, { name, uid, signal } = {}) =>
      call("POST /api/v1/tenants/{id}/checkpoint", {
        ...{ path: { id }, signal },
        body: { workload, ...(name !== undefined && { name }), ...(uid !== undefined && { uid }) },
      }),
    usage: (query = {}, { signal } = {}) => collect(all("GET /api/v1/usage", { query, signal })),
    async *logs(place, { tail, follow, previous, signal } = {}) {
      const id = await instanceOf(place, { calls, signal });
      const query = { tail, follow, previous };
      yield* linesOf(await send("GET /api/v1/instances/{id}/logs", { path: { id }, query, signal }), { signal });
    },
    events: (options = {}) => followEvents(options, { calls, sockets, ends }),
    run: processes.run,
    processes,
    files: createFiles(calls),
    snapshots: createSnapshots(calls),
  };
}
