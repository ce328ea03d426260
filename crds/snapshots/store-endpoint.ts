import { Agent } from "node:http";
import { Agent as SecureAgent } from "node:https";
import { createSecureContext } from "node:tls";
import { ApiError, ifFound } from "../client/api-error.ts";
import { pods, secrets } from "../client/built-in-resources.ts";
import { type Clock, systemClock } from "../client/clock.ts";
import type { ClusterClient } from "../client/cluster-client.ts";
import type { ClusterConfig, Credential } from "../client/config/cluster-config.ts";
import { createCredentials } from "../client/config/credentials.ts";
import { tlsOptions } from "../client/connections.ts";
import type { Pod, Secret } from "../kubernetes.ts";
import { StoreError } from "./snapshot-store.ts";
import type { StoreEndpoint } from "./store-connection.ts";
import { NAMES_SECRET, SNAPSHOTS_NAME } from "./store-folder.ts";

export const STORE_PORT = 8443;
/**
 * The connections of one client; more requests wait. It is a quarter of the connections that the helper pod accepts.
 */
const MOST_SOCKETS = 256;

/**
 * The keys of the Secret that the helper pod mounts and its clients read. The previous values stay for a while. For
 * clients that may read nothing else, the token for names is also in a separate Secret: as `token`, with the
 * certificate.
 */
export const SECRET_KEYS = {
  ...{ key: "tls.key", certificate: "tls.crt", token: "token", namesToken: "names-token" },
  ...{ certificateBefore: "tls.crt.before", tokenBefore: "token.before", namesTokenBefore: "names-token.before" },
} as const;

/** What a client may do: everything, or only list the tenants and workloads that have archives. */
export type StoreRights = "all" | "names";

export type FindEndpoint = (signal: AbortSignal) => Promise<StoreEndpoint>;

interface EndpointOptions {
  readonly client: Pick<ClusterClient, "get">;
  readonly namespace: string;
  /** @default "all" */
  readonly rights?: StoreRights | undefined;
  /** @default `STORE_PORT` */
  readonly port?: number | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Reaches the helper pod at its own address. The address may be a few seconds old, and another pod may have it by then.
 * So nothing is sent to a server without the helper's certificate.
 */
export function createDirectEndpoint({
  client,
  namespace,
  rights,
  port = STORE_PORT,
  clock = systemClock,
}: EndpointOptions): FindEndpoint {
  const read = cached(clock, async (signal: AbortSignal) => {
    const [pod, secret] = await Promise.all([readPod(signal), readSecret({ client, namespace, rights }, signal)]);
    return { host: addressOf(pod), ...secret };
  });
  let agent: { readonly known: string; readonly agent: SecureAgent } | undefined;

  async function readPod(signal: AbortSignal): Promise<Pod> {
    const pod = await ifFound(client.get(pods, { namespace, name: SNAPSHOTS_NAME }, { signal }));
    if (pod !== undefined) return pod;
    throw new StoreError(`the helper pod ${SNAPSHOTS_NAME} does not exist`, { isTransient: true });
  }

  return async (signal) => {
    const { host, certificates: ca, token } = await read.value(signal);
    const known = ca.join("");
    if (agent?.known !== known) {
      // The previous agent finishes its requests, and its idle connections time out.
      // Without `secureContext`, Node would read the certificates for every connection. The other runtimes use `ca`.
      const trusted = { ca, secureContext: createSecureContext({ ca }), servername: SNAPSHOTS_NAME };
      const kept = { keepAlive: true, noDelay: true, timeout: 45_000, maxSockets: MOST_SOCKETS };
      agent = { known, agent: new SecureAgent({ ...kept, ...trusted }) };
    }
    const options = { host, port, agent: agent.agent, servername: SNAPSHOTS_NAME };
    return { secure: true, options, token, forget: read.forget };
  };
}

/** Reaches the helper pod through the API server (`pods/proxy`), from where its own address cannot be reached. */
export function createApiServerEndpoint({
  client,
  namespace,
  rights,
  config,
  port = STORE_PORT,
  clock = systemClock,
}: EndpointOptions & { readonly config: ClusterConfig }): FindEndpoint {
  const credentials = createCredentials({ config, clock });
  const read = cached(clock, (signal: AbortSignal) => readSecret({ client, namespace, rights }, signal));
  const server = new URL(config.server);
  const secure = server.protocol === "https:";
  let agent: { readonly credential: Credential; readonly agent: Agent } | undefined;
  const base = server.pathname.replace(/\/+$/, "");
  const prefix = `${base}/api/v1/namespaces/${namespace}/pods/https:${SNAPSHOTS_NAME}:${port}/proxy`;

  return async (signal) => {
    const [{ token }, credential] = await Promise.all([read.value(signal), credentials.current()]);
    if (agent?.credential !== credential) {
      const kept = { keepAlive: true, noDelay: true, timeout: 45_000 };
      agent = {
        credential,
        agent: secure ? new SecureAgent({ ...kept, ...tlsOptions(config, credential) }) : new Agent(kept),
      };
    }
    const { authorization } = credential;
    return {
      ...{ secure, prefix, token, forget: read.forget },
      options: { host: server.hostname, port: server.port || (secure ? 443 : 80), agent: agent.agent },
      ...(authorization !== undefined && { headers: { authorization } }),
    };
  };
}

interface StoreSecret {
  readonly certificates: string[];
  /** The token, a comma and the previous token: the helper pod sees a renewed Secret later than its clients. */
  readonly token: string;
}

async function readSecret(
  { rights = "all", ...at }: Pick<EndpointOptions, "client" | "namespace" | "rights">,
  signal: AbortSignal,
): Promise<StoreSecret> {
  if (rights === "all") return await readSecretOf(SNAPSHOTS_NAME, at, signal);
  try {
    return await readSecretOf(NAMES_SECRET, at, signal);
  } catch (error) {
    // The Role of the previous version allows only the other Secret.
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return await readSecretOf(SNAPSHOTS_NAME, at, signal);
  }
}

async function readSecretOf(
  name: string,
  { client, namespace }: Pick<EndpointOptions, "client" | "namespace">,
  signal: AbortSignal,
): Promise<StoreSecret> {
  const secret = await ifFound(client.get(secrets, { namespace, name }, { signal }));
  const { certificate, certificateBefore, token, tokenBefore } = SECRET_KEYS;
  const certificates = [certificate, certificateBefore].map((key) => textOf(secret, key)).filter(Boolean);
  const tokens = [token, tokenBefore].map((key) => textOf(secret, key)).filter(Boolean);
  if (textOf(secret, certificate) && textOf(secret, token)) return { certificates, token: tokens.join(",") };
  throw new StoreError(`the Secret ${name} is empty: the operator has not filled it yet`, {
    isTransient: true,
  });
}

function textOf({ data = {} }: Pick<Secret, "data"> = {}, name: string): string {
  return Buffer.from(data[name] ?? "", "base64")
    .toString("utf8")
    .trim();
}

function addressOf({ metadata, status }: Pod): string {
  const isRunning = status?.containerStatuses?.[0]?.state?.running !== undefined;
  if (metadata.deletionTimestamp === undefined && isRunning && status?.podIP !== undefined) return status.podIP;
  throw new StoreError(`the helper pod ${SNAPSHOTS_NAME} does not run at the moment`, { isTransient: true });
}

const KEPT_MS = 5000;

/** Caches a read value for some seconds. A failure is not cached. */
function cached<T>(
  clock: Clock,
  read: (signal: AbortSignal) => Promise<T>,
): { value(signal: AbortSignal): Promise<T>; forget(): void } {
  let kept: { readonly value: T; readonly until: number } | undefined;
  return {
    async value(signal) {
      if (kept !== undefined && clock.now() < kept.until) return kept.value;
      const value = await read(signal);
      kept = { value, until: clock.now() + KEPT_MS };
      return value;
    },
    forget() {
      kept = undefined;
    },
  };
}
