import { Registry } from "prom-client";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { label } from "../../../crds/labels.ts";
import type { Exposure } from "../../../crds/network.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import type { AdmitActor } from "../../../edge/access/key-rates.ts";
import type { Keys } from "../../../edge/access/key-store.ts";
import type { TenantRates } from "../../../edge/access/tenant-rates.ts";
import { createActivity } from "../../../edge/activity.ts";
import { createFindLivePod } from "../../../edge/cluster/live-pod.ts";
import type { ProxyConfig } from "../../../edge/config.ts";
import type { ReadAccessToken } from "../../../edge/e2b/access-token.ts";
import { createIsKey } from "../../../edge/http/api-key.ts";
import type { Accessed } from "../../../edge/proxy/access.ts";
import { findFrontDoor } from "../../../edge/proxy/entry/front-door.ts";
import { createLinkTokens, type LinkTokens } from "../../../edge/proxy/entry/link-token.ts";
import { readKeys } from "../../../edge/proxy/entry/signing-keys.ts";
import { type RunningProxy, startProxy } from "../../../edge/proxy/start-proxy.ts";
import type { ApiAddress } from "../../../edge/proxy/to-api.ts";
import type { ReadNames } from "../../../edge/proxy/wake/derived-names.ts";
import { FakeCluster, NAMESPACE } from "../edge/fake-cluster.ts";
import { openWire, type Wire } from "../edge/open-wire.ts";
import { silentLog } from "../silent-log.ts";
import { type FakePod, startPod } from "./fake-pod.ts";
import { closeAfter } from "./start-proxy.ts";

export const KEY = "the-api-key-of-the-tests";

/** A front door over a fake cluster, with pods of bytes. */
export interface TestDoor {
  readonly cluster: FakeCluster;
  readonly proxy: RunningProxy;
  readonly tokens: LinkTokens;
  /** What the access log got. */
  readonly accessed: Accessed[];
  /** Fields of the warnings. */
  readonly warned: object[];
  readonly registry: Registry;
  /** Uses of pods, by their names, as they were told to be recorded. */
  readonly touched: string[];
  /** Sends a request, and gives what comes back on a connection of its own until its end. */
  ask(text: string): Promise<string>;
  wire(text?: string): Wire;
  addWorkload(name: string, expose: Exposure, more?: Partial<WorkloadSpec>): void;
  /** Makes a tenant's claim Active, with a pod that answers. */
  addInstance(tenantId: string, workloadRef: string, options?: Parameters<typeof startPod>[0]): Promise<AddedInstance>;
}

export interface AddedInstance {
  readonly pod: FakePod;
  readonly claim: Claim;
  readonly status: ClaimStatus;
}

const testKeys = readKeys({ data: { "2026-01": Buffer.alloc(32, "k").toString("base64") } }).keys;

/** Starts one on a free port, for tenants' hosts below `apps.test`. */
/** Pages of names that are one page. */
export function namesOf(listArchives: () => Promise<readonly ClaimKey[]>): ReadNames {
  return async ({ tenantId, workloadRef }) => {
    const isWanted = (key: ClaimKey): boolean =>
      (tenantId ?? key.tenantId) === key.tenantId && (workloadRef ?? key.workloadRef) === key.workloadRef;
    return { items: (await listArchives()).filter(isWanted), next: undefined };
  };
}

export async function startDoor(
  options: {
    config?: Partial<ProxyConfig>;
    /** Null: none is set. */
    key?: string | null;
    localOnly?: boolean;
    areKeysKnown?: () => boolean;
    /** Of links. @default one */
    signingKeys?: () => typeof testKeys;
    openFiles?: number;
    clock?: Clock;
    /** Of the times between looks at a claim. */
    steady?: Clock;
    rates?: TenantRates;
    /** Beside `key`. @default none */
    keys?: Pick<Keys, "actorOf">;
    readAccessToken?: ReadAccessToken;
    api?: ApiAddress;
    admit?: AdmitActor;
    listArchives?: () => Promise<{ tenantId: string; workloadRef: string }[]>;
  } = {},
): Promise<TestDoor> {
  const { key = KEY, localOnly = false, areKeysKnown = () => true, openFiles = 100_000, clock = systemClock } = options;
  const { listArchives, signingKeys = () => testKeys, steady } = options;
  const cluster = new FakeCluster();
  cluster.now = clock.now;
  const config: ProxyConfig = {
    listen: { hostname: "127.0.0.1", port: 0 },
    domain: { name: "apps.test", port: undefined },
    scheme: "http",
    trusted: [],
    api: undefined,
    waitMs: 5000,
    connections: 1000,
    tenantConnections: 500,
    responseTimeoutMs: 30_000,
    drainMs: 300,
    linkMaxSeconds: 3600,
    memoryBytes: 100_000_000,
    logRate: 1000,
    ...options.config,
  };
  const accessed: Accessed[] = [];
  const warned: object[] = [];
  const touched: string[] = [];
  const log = {
    ...silentLog,
    info: (fields: object) => void accessed.push(fields as Accessed),
    warn: (fields: object) => void warned.push(fields),
    error: (fields: object, message: string) => {
      throw new Error(`${message}: ${JSON.stringify(fields)}`);
    },
  };
  const { cache } = cluster;
  const shared = { cluster: cluster.cluster, namespace: NAMESPACE, cache, clock };
  const written = createActivity({ ...shared, log, instance: "door" });
  const tokens = createLinkTokens({ keys: signingKeys, now: clock.now });
  const registry = new Registry();
  let proxy: RunningProxy | undefined;
  const frontDoor = findFrontDoor(config, () => proxy?.port);
  if (frontDoor === undefined) throw new Error("Cannot start a front door without a domain");
  let ids = 0;
  proxy = await startProxy({
    config,
    claims: {
      ...shared,
      waiters: cluster.waiters,
      findLivePod: createFindLivePod(shared),
      timeOfDay: clock.now,
      randomId: () => `attempt-${++ids}`,
      waitLimitMs: 30_000,
    },
    ...{ rates: options.rates, keys: options.keys, admit: options.admit },
    ...{ readAccessToken: options.readAccessToken, api: options.api },
    isKey: key === null ? undefined : createIsKey(key),
    localOnly,
    frontDoor,
    tokens,
    areKeysKnown,
    readNames: listArchives && namesOf(listArchives),
    activity: {
      touch: (name) => void touched.push(name),
      duringInFlight: (name, work) => {
        touched.push(name);
        return written.duringInFlight(name, work);
      },
      announceInFlight: written.announceInFlight,
      clearInFlight: written.clearInFlight,
    },
    registry,
    instance: "test",
    openFiles,
    steady,
    log,
  });
  const running = proxy;
  closeAfter(async () => {
    await running.stop({ graceMs: 0 });
    await written.close();
  });

  function wire(text = ""): Wire {
    const opened = openWire(running.url);
    closeAfter(async () => opened.socket.destroy());
    if (text !== "") opened.socket.write(Buffer.from(text, "latin1"));
    return opened;
  }

  return {
    cluster,
    proxy: running,
    tokens,
    accessed,
    warned,
    registry,
    touched,
    wire,
    async ask(text) {
      const opened = wire(text.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
      await opened.closed;
      return opened.received();
    },
    addWorkload(name, expose, more = {}) {
      cluster.addWorkload(name, { ...more, network: { ...more.network, expose } });
    },
    async addInstance(tenantId, workloadRef, answer) {
      const pod = await startPod(answer);
      const status: ClaimStatus = {
        phase: "Active",
        source: "pool",
        instanceId: `inst-${tenantId.toLowerCase()}-${workloadRef}-1`,
        endpoint: { host: "127.0.0.1", port: pod.target.port },
      };
      const claim = cluster.addClaim({ tenantId, workloadRef, status });
      return { pod, claim, status };
    },
  };
}

/** A GET at a tenant's host, with more lines. */
export function get(host: string, target = "/", ...lines: string[]): string {
  return [`GET ${target} HTTP/1.1`, `Host: ${host}`, ...lines, "", ""].join("\r\n");
}

/** A response without what differs from one request to the next. */
export function comparable(response: string): string {
  return response.replace(/X-Request-Id: \S+/, "X-Request-Id: …");
}

/** The labels by which pods are found. */
export const podLabels = label;
