import type { Registry } from "prom-client";
import type { Claim } from "../../crds/claim.ts";
import { claimKey } from "../../crds/claims/claim-key.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import type { Workload } from "../../crds/workload.ts";
import type { AdmitActor } from "../access/key-rates.ts";
import type { Keys } from "../access/key-store.ts";
import type { TenantRates } from "../access/tenant-rates.ts";
import type { Activity } from "../activity.ts";
import type { ClaimServices } from "../api/claims/claim-services.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import type { ProxyConfig } from "../config.ts";
import type { ReadAccessToken } from "../e2b/access-token.ts";
import { isLoopback } from "../http/page-check.ts";
import type { Server } from "../serve/serve.ts";
import { createAccess } from "./access.ts";
import { createCredentials, isKnownHost } from "./entry/entry.ts";
import type { FrontDoor } from "./entry/front-door.ts";
import type { LinkTokens } from "./entry/link-token.ts";
import { createOriginReader } from "./entry/origin.ts";
import { createFindInstance } from "./find-instance.ts";
import { errorAnswer } from "./http/local-answer.ts";
import { createInstanceUses } from "./instance-uses.ts";
import { connectionsWithin, openFilesFor, readOpenFilesLimit } from "./open-files.ts";
import { createRoute, NOT_FOUND } from "./route.ts";
import { type ProxyServer, serveProxy } from "./serve-proxy.ts";
import type { ApiAddress } from "./to-api.ts";
import type { ReadNames } from "./wake/derived-names.ts";
import { createFindAwake } from "./wake/find-awake.ts";
import { createKnownTenants } from "./wake/known-tenants.ts";
import { createWaking } from "./wake/waking.ts";

/** A running front door. */
export interface RunningProxy extends Server {
  readonly port: number;
  /** From now on every response closes its connection; requests are accepted as before. */
  leave(): void;
  /** Receive the changes of the watches. */
  onClaim(change: Change<Claim>): void;
  onWorkload(change: Change<Workload>): void;
  onPod(change: Change<Pod>): void;
}

const RELEASED = errorAnswer(503, "the instance is being released; try again", [["Retry-After", "1"]]);
const LOST = errorAnswer(502, "the pod was lost");
/** Instances that may be woken concurrently. */
const WAKES_AT_ONCE = 200;

/** Serves tenants' instances at their addresses. */
export async function startProxy(options: {
  config: ProxyConfig;
  claims: ClaimServices & { readonly cache: Pick<ClusterCache, "claims" | "workloads" | "pods"> };
  /** Undefined: no key is set. */
  isKey: ((text: string) => boolean) | undefined;
  /** The keys besides TENANCY_API_KEY. @default they open nothing */
  keys?: Pick<Keys, "actorOf"> | undefined;
  /** Reads access tokens of sandboxes. @default they open nothing */
  readAccessToken?: ReadAccessToken | undefined;
  /** Where the API listens. @default requests to the daemon of a sandbox are refused */
  api?: ApiAddress | undefined;
  /** Counts their requests. @default without a limit */
  admit?: AdmitActor | undefined;
  /** Whether only this machine's own names are served. */
  localOnly: boolean;
  /** Its address, once it listens. */
  frontDoor: () => FrontDoor;
  tokens: LinkTokens;
  areKeysKnown: () => boolean;
  /** @default no tenant's requests are limited */
  rates?: TenantRates | undefined;
  /** Reads pages of the keys that have archives. @default none */
  readNames?: ReadNames | undefined;
  activity: Pick<Activity, "duringInFlight" | "announceInFlight" | "clearInFlight" | "touch">;
  registry: Registry;
  /** Prefix of the request ids of this process. */
  instance: string;
  /** Limit of open files of this process. @default as reported by the system */
  openFiles?: number | undefined;
  /** For times between reads of a claim. @default independent of the system's clock */
  steady?: Clock | undefined;
  /** The API server's time, to compare with times of objects. @default the time of `claims.clock` */
  timeOfDay?: (() => number) | undefined;
  log: Log;
}): Promise<RunningProxy> {
  const { config, localOnly, frontDoor, tokens, areKeysKnown, activity, registry, instance, log } = options;
  const claims = { ...options.claims, waitLimitMs: config.waitMs };
  const { cache, namespace, clock } = claims;
  const openFiles = options.openFiles ?? (await readOpenFilesLimit());
  const connections = Math.min(config.connections, openFiles === undefined ? Infinity : connectionsWithin(openFiles));
  if (connections < config.connections) {
    const problem = `TENANCY_PROXY_CONNECTIONS is ${config.connections}, which needs more than ${openFiles} open files: raise the limit (ulimit -Hn, LimitNOFILE) to ${openFilesFor(config.connections)}, or lower the setting`;
    log.warn({ openFiles, connections, problem }, "fewer connections are taken than configured");
  }
  let server: ProxyServer | undefined;
  let requests = 0;
  const access = createAccess({
    registry,
    gauges: {
      clients: () => server?.openConnections().clients ?? 0,
      pods: () => server?.openConnections().pods ?? 0,
      waking: () => waking.size,
    },
    log,
    logRate: config.logRate,
    clock,
  });
  const findAwake = createFindAwake(claims);
  const waking = createWaking({
    claims,
    isFound: (key) => findAwake(key, undefined) !== undefined,
    atOnce: WAKES_AT_ONCE,
    onWoken: ({ claim, ms }) => access.woken(claim.source ?? "existing", ms),
  });
  const known = createKnownTenants({ claims: cache.claims, readNames: options.readNames, clock });
  const uses = createInstanceUses({
    activity,
    clock: options.steady ?? steadyClock,
    timeOfDay: options.timeOfDay ?? clock.now,
  });
  const route = createRoute({
    frontDoor,
    namespace,
    cache,
    isFresh: () => cache.claims.isFresh() && cache.workloads.isFresh() && cache.pods.isFresh(),
    isKnownHost: (host) => !localOnly || isKnownHost(host, frontDoor(), isLoopback),
    readCredentials: createCredentials({ ...options, frontDoor: frontDoor() }),
    tokens,
    areKeysKnown,
    known,
    findInstance: createFindInstance({ claims, findAwake, waking }),
    api: options.api,
    uses,
    tenantConnections: config.tenantConnections,
    rates: options.rates,
    admit: options.admit,
    access,
    clock,
  });
  server = await serveProxy({
    route,
    listen: config.listen,
    log,
    requestId() {
      requests += 1;
      return `${instance}x-${requests.toString(36)}`;
    },
    limits: { connections, heldBytes: config.memoryBytes, firstByteMs: config.responseTimeoutMs },
    originOf: createOriginReader(config),
    onRefused: access.refused,
  });
  const { url, port } = server;
  const listening = server;

  return {
    url,
    port,
    leave: listening.leave,
    onClaim({ type, object, previous }) {
      if (type === "deleted") known.onReleased(object.spec);
      const { instanceId } = object.status ?? {};
      const isNew = object.metadata.deletionTimestamp !== undefined && !previous?.metadata.deletionTimestamp;
      if (isNew && instanceId !== undefined) uses.drain(instanceId, { answer: RELEASED, drainMs: config.drainMs });
    },
    onWorkload({ type, object, previous }) {
      const isSame = object.spec.network?.expose === previous?.spec.network?.expose;
      if (type === "deleted" || (previous !== undefined && !isSame)) uses.stopWorkload(object.metadata.name, NOT_FOUND);
      // After the requests that it ended were counted.
      if (type === "deleted") access.forget(object.metadata.name);
    },
    onPod({ type, object }) {
      uses.onPod(object.metadata.name, type === "deleted" ? undefined : object, ({ tenantId, workloadRef }) => {
        for (const { metadata } of cache.claims.store.by("key", claimKey({ tenantId, workloadRef })))
          if (metadata.deletionTimestamp === undefined) return LOST;
        return RELEASED;
      });
    },
    async stop({ graceMs }) {
      const finished = await listening.stop({ graceMs });
      waking.close();
      uses.close();
      return finished;
    },
  };
}
