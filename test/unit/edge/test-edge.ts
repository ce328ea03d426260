import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { RecordedEvent } from "../../../crds/client/event-recorder.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import { label } from "../../../crds/labels.ts";
import type { CurrentQuotas } from "../../../crds/quotas/follow-quotas.ts";
import { noQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import type { OpenedStore } from "../../../crds/snapshots/open-store.ts";
import type { MostKept, SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import type { Tracer } from "../../../crds/tracing/tracer.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";

import { countCallers, createKeyRates } from "../../../edge/access/key-rates.ts";
import { createKeyStore, type KeyStore, type Keys, withoutContent } from "../../../edge/access/key-store.ts";
import { createTenantRates } from "../../../edge/access/tenant-rates.ts";
import type { Tokens } from "../../../edge/access/tokens.ts";
import { type Activity, createActivity } from "../../../edge/activity.ts";
import { createAuthorize } from "../../../edge/api/authorize.ts";
import type { ClaimServices } from "../../../edge/api/claims/claim-services.ts";
import type { Deliverer } from "../../../edge/api/deliveries.ts";
import { createEventHub, type EventHub } from "../../../edge/api/events/event-hub.ts";
import { type Attachments, createAttachments } from "../../../edge/api/inside/attachments.ts";
import type { Links } from "../../../edge/api/links.ts";
import { loginRoutes } from "../../../edge/api/login.ts";
import { apiRoutes } from "../../../edge/api/routes.ts";
import { createAudit } from "../../../edge/audit/audit.ts";
import { createFindLivePod } from "../../../edge/cluster/live-pod.ts";
import { nextWarmPod, standingOf } from "../../../edge/cluster/watch-cluster.ts";
import { type AccessTokens, createAccessTokens } from "../../../edge/e2b/access-token.ts";
import { withE2b } from "../../../edge/e2b/e2b.ts";
import { createEnvd } from "../../../edge/e2b/envd/envd.ts";
import { createHolderOf } from "../../../edge/e2b/envd/holder.ts";
import { createClaimHistory } from "../../../edge/history/claim-history.ts";
import { createPoolHistory } from "../../../edge/history/pool-history.ts";
import { createApiKeyCheck, createFindActor } from "../../../edge/http/api-key.ts";
import { type AnsweredRequest, createHandler, type Handler } from "../../../edge/http/handler.ts";
import { createPageCheck } from "../../../edge/http/page-check.ts";
import { createSessions, type Sessions } from "../../../edge/http/session.ts";
import { type Channels, createChannels } from "../../../edge/inside/channels.ts";
import { createChannelsAhead } from "../../../edge/inside/channels-ahead.ts";
import { createKubectl } from "../../../edge/kubectl/kubectl.ts";
import { mcpRoutes } from "../../../edge/mcp/routes.ts";
import type { Network } from "../../../edge/proxy/entry/origin.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";
import { memoryInformer } from "../memory-informer.ts";
import { BUILD_NAMESPACE, FakeCluster, KEYS_NAMESPACE, NAMESPACE } from "./fake-cluster.ts";

/** One line of the log, with its level. */
export interface LogLine {
  level: string;
  fields: object;
  message: string;
}

/** A handler over a fake cluster, with what it logged and answered. */
export interface TestEdge {
  cluster: FakeCluster;
  handler: Handler;
  /** Stands still until a test moves it, so no wait ends by itself. */
  clock: ManualClock;
  activity: Activity;
  channels: Channels;
  attachments: Attachments;
  accessTokens: AccessTokens;
  /** What `/ws` tells; nothing is published by itself. */
  events: EventHub;
  /** Undefined without a key. */
  sessions: Sessions | undefined;
  log: LogLine[];
  answers: AnsweredRequest[];
  /** Lines of the audit log. */
  audited: string[];
  /** Events of the cluster. */
  recorded: RecordedEvent[];
  /** Sends a request; a body that is no string goes as JSON. */
  call(
    target: string,
    options?: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal; peer?: string },
  ): Promise<Answer>;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  json: unknown;
  /** The body's `error`, where it has one. */
  error: string | undefined;
}

const refusedExec: Exec = async () => {
  throw new ExecError("no exec here", { reason: "ContainerNotRunning" });
};

/** Makes a handler for a test; a claim call waits 30 s of the manual clock. */
export function testEdge(
  options: {
    apiKey?: string;
    /** Whether it stops soon. @default false */
    isLeaving?: () => boolean;
    clock?: Clock;
    /** @default the clock's */
    timeOfDay?: () => number;
    waitLimitMs?: number;
    admission?: ClaimServices["admission"];
    secretsKey?: string;
    kubectl?: string;
    /** @default the API server refuses every exec */
    exec?: Exec;
    contextLimitBytes?: number;
    snapshotLimitBytes?: number;
    /** @default three older versions of each kind */
    most?: MostKept;
    /** Of an edge with that role. */
    gateway?: Deliverer;
    /** TENANCY_CORS_ORIGIN. */
    origins?: string[];
    localOnly?: boolean;
    /** TENANCY_PROXY_TRUSTED. */
    trusted?: Network[];
    /** Of `/ws`. */
    requireKey?: boolean;
    links?: Links;
    /** Beside `apiKey`. @default none */
    keys?: Keys;
    /** @default there are none */
    quotas?: CurrentQuotas;
    /** Tokens that others issue. @default none */
    tokens?: Tokens;
    /** @default nothing is traced */
    tracer?: Tracer;
    /** Whether there is a namespace for keys. @default false */
    hasKeys?: boolean;
    /** @default none is there */
    store?: SnapshotStore;
    contexts?: BuildContexts;
    usage?: UsageStore;
    /** @default volume */
    storeKind?: OpenedStore["kind"];
    /** Whether archives were seen. @default they were not */
    wasMarked?: () => boolean;
  } = {},
): TestEdge {
  const { kubectl: command = "/nowhere/kubectl", apiKey, localOnly = false, requireKey = false } = options;
  const origins = new Set(options.origins);
  const cluster = new FakeCluster();
  const clock = manualClock();
  const log: LogLine[] = [];
  const answers: AnsweredRequest[] = [];
  const recorded: RecordedEvent[] = [];
  const audited: string[] = [];
  const logAt = (level: string) => (fields: object, message: string) => void log.push({ level, fields, message });
  let ids = 0;
  const logger = { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
  const { cache } = cluster;
  const shared = { cluster: cluster.cluster, namespace: NAMESPACE, cache, clock: options.clock ?? clock };
  const timeOfDay = options.timeOfDay ?? shared.clock.now;
  // A write that is put off for a minute would keep the test's process for as long.
  const activity = createActivity({ ...shared, clock, log: logger, instance: "test" });
  const { now } = shared.clock;
  const history = {
    claims: createClaimHistory({ now }),
    pools: createPoolHistory({ now, cache: () => cluster.cache }),
  };
  const checkPage = createPageCheck({ localOnly, origins });
  const keyStore = options.hasKeys === true ? createTestKeys() : undefined;
  const { keys = keyStore } = options;
  const login = options.tokens?.login;
  const sessions =
    apiKey === undefined ? undefined : createSessions({ apiKey, origins, keys, login, clock: shared.clock });
  const findActor = apiKey === undefined ? undefined : createFindActor(apiKey, keys);
  const admit = createKeyRates({ clock: shared.clock });
  const authenticate = findActor && countCallers(createApiKeyCheck(findActor, sessions, options.tokens), admit);
  const events = createEventHub({ instance: "test", clock: shared.clock, standing: () => standingOf(cluster.cache) });
  const channels = createChannels({
    ...{ exec: options.exec ?? refusedExec, namespace: NAMESPACE },
    isPresent: async ({ name, uid }) => (await cluster.cluster(pods).named(name).find())?.metadata.uid === uid,
  });
  const channelsAhead = createChannelsAhead({
    channels,
    nextPod: (workload) => nextWarmPod(workload, cluster.cache),
    log: logger,
    clock: shared.clock,
  });
  const quotas = options.quotas ?? { current: () => noQuotas, problem: () => undefined };
  const attachments = createAttachments({ clock: shared.clock, quotas });
  const audit = createAudit({
    output: { write: (line) => void audited.push(line), close: async () => undefined },
    ...{ asksForKey: apiKey !== undefined, apiKey, trusted: options.trusted ?? [] },
    ...{ clock: shared.clock, steadyNow: shared.clock.now },
    ownerOf(name) {
      const { labels = {} } = cache.pods.store.get({ namespace: NAMESPACE, name })?.metadata ?? {};
      return { tenant: labels[label.tenant], workload: labels[label.workload] };
    },
  });
  const pages =
    login === undefined || sessions === undefined
      ? []
      : loginRoutes({ login, sessions, checkPage, addressOf: (_, peer) => peer });
  const services = {
    asksForKey: apiKey !== undefined,
    requireKey,
    authenticate,
    sessions,
    login,
    findActor,
    audit,
    activity,
    events,
    history,
    links: options.links,
    keys: keyStore,
    quotas,
    instance: "test",
    gateway: () => options.gateway,
    checkPage,
    kubectl: createKubectl({ namespace: NAMESPACE, command }),
    channels,
    channelsAhead,
    attachments,
    store: () => openedStore(options),
    most: options.most ?? { history: 3, replaced: 3 },
    snapshotLimitBytes: options.snapshotLimitBytes ?? 1024 * 1024,
    recorder: { record: (event: RecordedEvent) => void recorded.push(event), flush: async () => undefined },
    log: logger,
    builds: {
      namespace: BUILD_NAMESPACE,
      kubectl: createKubectl({ namespace: BUILD_NAMESPACE, command }),
      contextLimitBytes: options.contextLimitBytes ?? 256 * 1024 * 1024,
    },
    ...{ ...shared, timeOfDay },
    tracer: options.tracer,
    waiters: cluster.waiters,
    findLivePod: createFindLivePod(shared),
    randomId: () => `attempt-${++ids}`,
    secretsKey: async () => Buffer.from(options.secretsKey ?? ""),
    waitLimitMs: options.waitLimitMs ?? 30_000,
    admission: options.admission,
  };
  const serving = {
    ...{ audit, authenticate, checkPage, log: logger, tracer: options.tracer, instance: "test" },
    rates: createTenantRates({ quotas, clock: shared.clock }),
    ...(options.isLeaving !== undefined && { isLeaving: options.isLeaving }),
    onAnswered: (answered: AnsweredRequest) => void answers.push(answered),
  };
  const api = createHandler({
    ...serving,
    routes: [
      ...apiRoutes(services),
      ...pages,
      ...mcpRoutes({ authenticate, checkPage, apiKey, audit, log: logger, handler: (...given) => handler(...given) }),
    ],
    authorize: createAuthorize(shared),
  });
  const accessTokens = createAccessTokens({
    signingKey: async () => Buffer.from(`sandbox tokens ${apiKey}`),
    ...{ keys, issued: options.tokens, clock: shared.clock },
  });
  const envd = createEnvd({
    ...{ ...serving, services, admit, authorize: createAuthorize(shared), clock: shared.clock },
    ...{ tokens: accessTokens, holderOf: createHolderOf(cache) },
  });
  const e2b = { ...serving, envd, services: { ...services, accessTokens, domain: () => undefined } };
  const handler: Handler = withE2b(api, e2b);

  function createTestKeys(): KeyStore {
    const informer = memoryInformer(cluster, { resource: secrets, indexes: {}, transform: withoutContent });
    const keys = { namespace: KEYS_NAMESPACE, clock: shared.clock, log: logger };
    const endless = new Promise<void>(() => undefined);
    return createKeyStore({ ...keys, informer: { ...informer, done: endless }, isFresh: () => cluster.isFresh });
  }

  function openedStore(given: typeof options): OpenedStore {
    const { store, contexts = {} as BuildContexts, storeKind = "volume", wasMarked = () => false } = given;
    // Every call of one that was not given fails.
    const archives = store ?? ({} as SnapshotStore);
    const mark = { advice: "", wasSeen: async () => wasMarked(), remember: async () => undefined };
    const usage = given.usage ?? ({} as UsageStore);
    return { kind: storeKind, archives, contexts, usage, mark, check: async () => undefined, close: () => undefined };
  }

  return {
    cluster,
    handler,
    clock,
    activity,
    channels,
    attachments,
    accessTokens,
    events,
    sessions,
    log,
    answers,
    audited,
    recorded,
    async call(target, { body, headers = {}, signal, peer = "192.0.2.7" } = {}) {
      const [method = "GET", path = "/"] = target.split(" ");
      const init: RequestInit = { method, headers };
      if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
      if (body !== undefined && headers["content-type"] === undefined) {
        init.headers = { "content-type": "application/json", ...headers };
      }
      const peerOf = () => peer;
      const response = await handler(
        new Request(`http://edge.test${path}`, init),
        signal === undefined ? { peerOf } : { peerOf, clientGone: signal },
      );
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.startsWith("application/json") ?? false;
      const json = text !== "" && isJson ? JSON.parse(text) : undefined;
      return { status: response.status, headers: response.headers, text, json, error: json?.error };
    },
  };
}
