import { randomBytes } from "node:crypto";
import { Registry } from "prom-client";
import { pods } from "../crds/client/built-in-resources.ts";
import { steadyClock, systemClock } from "../crds/client/clock.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { createEventRecorder } from "../crds/client/event-recorder.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import { createHandlerFailures } from "../crds/client/watch/handler-failures.ts";
import { label } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { openSink } from "../crds/sink/event-sink.ts";
import type { OpenedStore } from "../crds/snapshots/open-store.ts";
import { startTracing } from "../crds/tracing/start-tracing.ts";
import { sleep, within } from "../crds/waits.ts";
import { createKeyRates } from "./access/key-rates.ts";
import { watchKeys } from "./access/key-store.ts";
import { createTenantRates } from "./access/tenant-rates.ts";
import { createTokens } from "./access/tokens.ts";
import { createActivity } from "./activity.ts";
import type { ApiRoute } from "./api/api-route.ts";
import { auditRoute } from "./api/audit.ts";
import { createAuthorize } from "./api/authorize.ts";
import { createClaimAdmission } from "./api/claims/claim-admission.ts";
import { createTenantQuotaCheck } from "./api/claims/tenant-quota.ts";
import { type DashboardAssets, dashboardRoutes } from "./api/dashboard.ts";
import { deliveryRoutes } from "./api/deliveries.ts";
import { createEventHub } from "./api/events/event-hub.ts";
import { publishChanges } from "./api/events/publish-change.ts";
import { createAttachments } from "./api/inside/attachments.ts";
import { loginRoutes } from "./api/login.ts";
import { type ApiServices, apiRoutes } from "./api/routes.ts";
import { sessionRoutes } from "./api/session.ts";
import { readSnapshotNames } from "./api/snapshots/store.ts";
import { healthRoute } from "./api/system.ts";
import { createAudit } from "./audit/audit.ts";
import { openAuditOutput } from "./audit/audit-output.ts";
import { createClaimWaiters } from "./cluster/claim-waiters.ts";
import { createEdgeCluster } from "./cluster/edge-cluster.ts";
import { createFindLivePod } from "./cluster/live-pod.ts";
import { nextWarmPod, standingOf, watchCluster } from "./cluster/watch-cluster.ts";
import { watchQuotas } from "./cluster/watch-quotas.ts";
import type { EdgeConfig } from "./config.ts";
import { createAccessTokens } from "./e2b/access-token.ts";
import { withE2b } from "./e2b/e2b.ts";
import { createEnvd } from "./e2b/envd/envd.ts";
import { createHolderOf } from "./e2b/envd/holder.ts";
import { type Gateway, startGateway } from "./gateway/start-gateway.ts";
import { createClaimHistory } from "./history/claim-history.ts";
import { createPoolHistory } from "./history/pool-history.ts";
import { createAccess } from "./http/access.ts";
import { createClientAddress } from "./http/client-address.ts";
import { createCors } from "./http/cors.ts";
import { createDerivedKey } from "./http/derived-key.ts";
import { type AnsweredRequest, createHandler, type Handler } from "./http/handler.ts";
import { createChannels } from "./inside/channels.ts";
import { createChannelsAhead } from "./inside/channels-ahead.ts";
import { createKubectl } from "./kubectl/kubectl.ts";
import { mcpRoutes } from "./mcp/routes.ts";
import { createMetrics, probeRoutes } from "./metrics.ts";
import { createLinks, findFrontDoor, sandboxDomain } from "./proxy/entry/front-door.ts";
import { createLinkTokens } from "./proxy/entry/link-token.ts";
import { watchSigningKeys } from "./proxy/entry/signing-keys.ts";
import { type RunningProxy, startProxy } from "./proxy/start-proxy.ts";
import { apiAddress } from "./proxy/to-api.ts";
import type { Serve, Server } from "./serve/serve.ts";

export interface Edge {
  readonly url: string;
  readonly metricsUrl: string | undefined;
  /** URL of the front door; undefined without the role proxy. */
  readonly proxyUrl: string | undefined;
  /** Resolves when all caches are synced. */
  readonly synced: Promise<unknown>;
  /** Rejects if a watch cannot be resumed: end the process and start a new one. */
  readonly failed: Promise<unknown>;
  /**
   * Fails the readiness probe and stops polling bots, but continues to serve for `delayMs`, closing each connection
   * after its response: until then a load balancer may send requests here. Then stops accepting, waits at most
   * `graceMs` for requests in flight, and ends the watches.
   *
   * @returns whether all requests finished
   */
  stop(options: { delayMs?: number; graceMs: number }): Promise<boolean>;
}

/** Time limit of a claim call. */
const CLAIM_WAIT_MS = 30_000;
/** For the ends of execs; each is cut at once. */
const CLOSE_MS = 1000;
/** For the last writes of activity; nothing else waits for them. */
const FLUSH_MS = 2000;

/**
 * Starts the watches and the listeners. It serves immediately, and answers 503 to requests that need the caches until
 * they are synced.
 */
export async function startEdge(options: {
  config: EdgeConfig;
  client: ClusterClient;
  exec: Exec;
  serve: Serve;
  /** Where tenants' files are archived; opened by the first call. */
  store: () => OpenedStore;
  /** @default no dashboard */
  dashboard?: DashboardAssets | undefined;
  log: Log;
  /** @default 30000 */
  claimWaitMs?: number;
  /** Lifetime of a browser's session. @default 12 hours */
  sessionMs?: number;
}): Promise<Edge> {
  const { config, client, exec, serve, store, dashboard, log } = options;
  const { namespace } = config;
  // Before anything runs, since it throws for a file that cannot be written.
  const auditOutput =
    config.audit === undefined
      ? undefined
      : openAuditOutput(config.audit, {
          ...{ log, clock: systemClock },
          onLost: () => metrics.auditLost("output"),
          onFailure: () => metrics.auditFailed(),
        });
  const registry = new Registry();
  const sink = config.sink && (await openSink(config.sink, { registry, log }));
  const instance = randomBytes(4).toString("hex");
  const watches = new AbortController();
  const waiters = createClaimWaiters();
  const { now } = systemClock;
  // For comparisons with times of objects. Durations shown to people need a steadier clock.
  const serverTime = client.transport.now;
  const history = {
    claims: createClaimHistory({ now }),
    pools: createPoolHistory({ now, cache: () => cache }),
  };
  const events = createEventHub({ instance, clock: systemClock, standing: () => standingOf(cache) });
  const publish = publishChanges(events);
  const onFailure = createHandlerFailures({ log, count: ({ resource }) => metrics.handlerFailed(resource) });
  const isApi = config.roles.has("api");
  const cache = watchCluster({
    ...{ client, namespace, waiters, roles: config.roles, onFailure, signal: watches.signal, log },
    onChange: {
      ...publish,
      claims(change) {
        history.claims.onChange(change);
        history.pools.onClaim(change);
        proxy?.onClaim(change);
        gateway?.onClaim(change);
        publish.claims(change);
      },
      pods(change) {
        history.pools.onPod(change);
        proxy?.onPod(change);
        publish.pods(change);
      },
      workloads(change) {
        proxy?.onWorkload(change);
        publish.workloads(change);
      },
    },
    gateway: {
      workload: (name) => gateway?.enqueueWorkload(name),
      trigger: (change) => gateway?.enqueueTrigger(change),
    },
  });
  const cluster = createEdgeCluster({ client, namespace, cache });
  const { keysNamespace } = config;
  const keys =
    keysNamespace === undefined
      ? undefined
      : watchKeys({
          ...{ client, namespace: keysNamespace, signal: watches.signal, log },
          ...{ clock: systemClock, timeOfDay: serverTime },
        });
  let stopping = false;
  let gateway: Gateway | undefined;
  let proxy: RunningProxy | undefined;
  const isReady = () =>
    !stopping &&
    cache.claims.isFresh() &&
    cache.workloads.isFresh() &&
    cache.pods.isFresh() &&
    (keys?.isReady() ?? true) &&
    (gateway?.isReady() ?? true) &&
    (proxy !== undefined || !config.roles.has("proxy"));
  const admission = createClaimAdmission({ onRefused: () => metrics.claimRefused() });
  const metrics = createMetrics({
    registry,
    waiting: () => waiters.size,
    claimLimit: () => admission.limit(),
    listening: () => events.size,
    isFresh: isReady,
  });

  const tracing = config.tracing && startTracing({ config: config.tracing, registry, log });
  const kubectl = createKubectl({ namespace });
  const quotas = watchQuotas({ client, namespace, signal: watches.signal, log });
  const attachments = createAttachments({ clock: systemClock, quotas });
  const channels = createChannels({
    ...{ exec, namespace },
    isPresent: async ({ name, uid }) => (await cluster(pods).named(name).find())?.metadata.uid === uid,
  });
  const channelsAhead = createChannelsAhead({ channels, nextPod: (workload) => nextWarmPod(workload, cache), log });
  const builds = {
    namespace: config.buildNamespace,
    kubectl: createKubectl({ namespace: config.buildNamespace }),
    contextLimitBytes: config.contextLimitBytes,
  };
  const recorder = createEventRecorder({ client, namespace, component: "tenancy-edge", log });
  const activity = createActivity({
    cluster,
    namespace,
    cache,
    clock: { ...systemClock, now: serverTime },
    log,
    instance,
  });
  if (isApi) {
    void kubectl.problem().then((problem) => {
      if (problem !== undefined) log.warn({ problem }, "logs and exec of instances are unavailable");
    });
  }
  const { oidc, apiKey, accountAudience } = config;
  if (!isApi && apiKey !== undefined && keys === undefined) {
    const problem = "TENANCY_KEYS_NAMESPACE is not set: add manifests/components/keys if there are keys with a role";
    log.info({ problem }, "this program takes no keys with a role");
  }
  const accounts =
    accountAudience === undefined ? undefined : { client, config: { audience: accountAudience, namespace } };
  const isIssued = apiKey !== undefined && (oidc !== undefined || accounts !== undefined);
  const issued = isIssued ? createTokens({ oidc, accounts, apiKey, clock: systemClock, log }) : undefined;
  const audit = createAudit({
    output: auditOutput,
    sink,
    ...{ asksForKey: config.apiKey !== undefined, apiKey: config.apiKey, trusted: config.proxy.trusted },
    ownerOf(name) {
      const { labels = {} } = cache.pods.store.get({ namespace, name })?.metadata ?? {};
      return { tenant: labels[label.tenant], workload: labels[label.workload] };
    },
    clock: systemClock,
    onOmitted: () => metrics.auditLost("unauthenticated"),
  });
  const addressOf = createClientAddress(config.proxy);
  const admit = createKeyRates({ clock: steadyClock });
  const access = createAccess({ config, keys, tokens: issued, addressOf, admit, sessionMs: options.sessionMs });
  const { checkPage, isKey, login, sessions } = access;
  const frontDoor = findFrontDoor(config.proxy, () => proxy?.port);
  const signingKeys = frontDoor && watchSigningKeys({ client, namespace, signal: watches.signal, log });
  const tokens = createLinkTokens({
    keys: () => signingKeys?.current() ?? [],
    isApiKey: (ref) => issued?.holds(ref) ?? (keys === undefined ? false : keys.holds(ref)),
    now,
  });
  const accessTokens = createAccessTokens({
    signingKey: createDerivedKey(config.apiKey ?? "", "tenancy sandbox tokens v1"),
    ...{ keys, issued, clock: systemClock },
  });
  const links =
    frontDoor &&
    createLinks({ frontDoor, tokens, problem: () => signingKeys?.problem(), maxSeconds: config.proxy.linkMaxSeconds });
  const claims = {
    ...{ cluster, namespace, cache, waiters, activity, log, clock: systemClock, tracer: tracing?.tracer },
    timeOfDay: serverTime,
    findLivePod: createFindLivePod({ cluster }),
    admission,
    quota: createTenantQuotaCheck({ quotas, cache, namespace, clock: systemClock }),
    secretsKey: createDerivedKey(config.apiKey ?? "", "tenancy claim secrets v1"),
    randomId: () => randomBytes(8).toString("hex"),
    waitLimitMs: options.claimWaitMs ?? CLAIM_WAIT_MS,
  };
  const archives = { store, most: config.store.most, snapshotLimitBytes: config.snapshotLimitBytes };
  const shown = { events, history, instance, gateway: () => gateway };
  const services = {
    ...access,
    ...claims,
    ...archives,
    ...shown,
    keys,
    quotas,
    audit,
    kubectl,
    channels,
    channelsAhead,
    attachments,
    recorder,
    builds,
    links,
  };
  const { triggers } = cache;
  if (config.roles.has("gateway") && triggers !== undefined) {
    const { triggers: limits, localOnly, secretPolicy } = config;
    const { registry } = metrics;
    gateway = startGateway({
      client,
      claims,
      timeOfDay: serverTime,
      triggers,
      triggersSynced: triggers.synced,
      workloadsSynced: cache.synced,
      activity,
      drainMs: config.proxy.drainMs,
      limits,
      localOnly,
      secretPolicy,
      instance,
      registry,
      log,
    });
  }
  const listed = cache.synced.then(() => {
    for (const claim of cache.claims.store.values()) history.claims.onListed(claim);
  });
  const synced = Promise.all([listed, gateway?.synced]);
  // An edge that stops before its caches are synced has not failed; callers that await `synced` see the rejection.
  synced.catch(() => undefined);
  const authorize = createAuthorize(claims);
  const serving = {
    authenticate: access.authenticate,
    rates: createTenantRates({ quotas, clock: steadyClock }),
    checkPage,
    cors: config.corsOrigins.size > 0 ? createCors(config.corsOrigins) : undefined,
    tracer: tracing?.tracer,
    audit,
    log,
    instance,
    isLeaving: () => stopping,
    onAnswered(answered: AnsweredRequest) {
      metrics.answered(answered);
      log.debug(answered, "request");
    },
  };
  const api = createHandler({
    ...serving,
    webhooks: gateway?.webhooks,
    routes: [
      ...(isApi ? apiRoutes(services) : gatewayRoutes(services)),
      ...(isApi && login !== undefined && sessions !== undefined
        ? loginRoutes({ login, sessions, checkPage, addressOf })
        : []),
      ...(isApi ? mcpRoutes({ ...access, apiKey, audit, log, handler: (...given) => handler(...given) }) : []),
      ...(dashboard === undefined ? [] : dashboardRoutes(dashboard, { checkPage })),
    ],
    authorize,
  });
  const domain = () => sandboxDomain(frontDoor);
  const envd = createEnvd({
    ...{ ...serving, services, admit, authorize, clock: systemClock },
    ...{ tokens: accessTokens, holderOf: createHolderOf(cache) },
  });
  const handler: Handler = isApi
    ? withE2b(api, { ...serving, envd, services: { ...services, accessTokens, domain } })
    : api;
  const probes = createHandler({ routes: probeRoutes({ metrics, isReady }), log, instance: `${instance}p` });

  const servers: Server[] = [];
  try {
    // Before anything listens: an edge whose API answers must have its front door too.
    const readAccessToken = config.roles.has("proxy") ? await accessTokens.reader() : undefined;
    servers.push(await serve({ handler, listen: config.listen, log }));
    if (config.metricsListen !== undefined)
      servers.push(await serve({ handler: probes, listen: config.metricsListen, log }));
    if (config.roles.has("proxy") && frontDoor !== undefined) {
      proxy = await startProxy({
        config: config.proxy,
        readAccessToken,
        api: apiAddress(config.proxy.api, { own: isApi ? servers[0]?.url : undefined, log }),
        claims,
        timeOfDay: serverTime,
        ...{ isKey, keys, admit },
        localOnly: config.localOnly,
        frontDoor,
        tokens,
        areKeysKnown: () => signingKeys?.isKnown() ?? false,
        // Strangers at a public workload must not use up what the tenant may ask of the API.
        rates: createTenantRates({ quotas, clock: steadyClock }),
        readNames: (filter) => readSnapshotNames(filter, services),
        activity,
        registry: metrics.registry,
        instance,
        log,
      });
    }
  } catch (error) {
    watches.abort();
    await gateway?.close();
    for (const started of servers) await started.stop({ graceMs: 0 });
    throw error;
  }
  const [server, probeServer] = servers as [Server, Server?];

  return {
    url: server.url,
    metricsUrl: probeServer?.url,
    proxyUrl: proxy?.url,
    synced,
    failed: Promise.all([cache.done, keys?.done]),
    async stop({ delayMs = 0, graceMs }) {
      stopping = true;
      proxy?.leave();
      // Webhooks are served for as long as the listener is.
      const drained = gateway?.drain({ graceMs: delayMs + graceMs });
      await sleep(delayMs, { clock: systemClock });
      events.close();
      attachments.close();
      kubectl.closeEndless();
      builds.kubectl.closeEndless();
      const [answered, hasDrained = true, forwarded = true] = await Promise.all([
        server.stop({ graceMs }),
        drained,
        proxy?.stop({ graceMs }),
      ]);
      await gateway?.close();
      kubectl.close();
      builds.kubectl.close();
      channelsAhead.close();
      await within(channels.close(), CLOSE_MS);
      await within(Promise.all([activity.close(), recorder.flush(), audit.close()]), FLUSH_MS);
      watches.abort();
      issued?.close();
      sessions?.close();
      await Promise.all([cache.done, keys?.done, tracing?.close(), sink?.close()]);
      await probeServer?.stop({ graceMs: 1000 });
      return answered && hasDrained && forwarded;
    },
  };
}

/**
 * Routes of an edge without the role api, in addition to webhooks. Anyone may reach this listener, so the gateway's
 * deliveries and tests are served only if a key, or the restriction to this machine, excludes strangers.
 */
function gatewayRoutes(services: ApiServices & { readonly isClosed: boolean }): ApiRoute[] {
  if (!services.isClosed) return [healthRoute];
  return [healthRoute, ...sessionRoutes(services), ...deliveryRoutes(services), auditRoute(services)];
}

/** Chooses the adapter of the current runtime; the others are never loaded. */
export async function chooseServe(versions: NodeJS.ProcessVersions = process.versions): Promise<Serve> {
  if (versions.bun !== undefined) return (await import("./serve/bun.ts")).serveBun;
  if ("deno" in versions) return (await import("./serve/deno.ts")).serveDeno;
  return (await import("./serve/node.ts")).serveNode;
}
