import { isIP } from "node:net";
import * as v from "valibot";
import {
  bytesOf,
  environmentProblems,
  type ListenAddress,
  leaseSeconds,
  listenAddress,
  listenAddressOrOff,
  namespaceName,
  quantity,
  serverAddress,
  wholeNumber,
} from "../crds/environment.ts";
import { type SecretPolicy, secretPolicies } from "../crds/secret-refusal.ts";
import { type SinkConfig, sinkConfig, sinkEnvironment, sinkSecrets } from "../crds/sink/sink-config.ts";
import { type StoreConfig, storeConfig, storeEnvironment } from "../crds/snapshots/store-config.ts";
import { type TracingConfig, tracingConfig } from "../crds/tracing/tracing-config.ts";
import { type OidcConfig, oidcConfig, oidcEnvironment } from "./access/oidc/oidc-config.ts";
import { isLoopback } from "./http/page-check.ts";
import { type Network, parseNetwork } from "./proxy/entry/origin.ts";

/** The edge's settings, from its environment. */
export interface EdgeConfig {
  readonly listen: ListenAddress;
  readonly namespace: string;
  /** Undefined: no key is required. */
  readonly apiKey: string | undefined;
  /** Whether `/ws` requires the key too. */
  readonly wsRequireKey: boolean;
  /** Neither a key nor `TENANCY_ALLOW_ANONYMOUS` is set: only this machine is served. */
  readonly localOnly: boolean;
  /** Origins whose pages may use the API; `*` for all. */
  readonly corsOrigins: ReadonlySet<string>;
  readonly roles: ReadonlySet<EdgeRole>;
  readonly triggers: TriggerLimits;
  /** Which Secrets triggers may name. */
  readonly secretPolicy: SecretPolicy;
  /** Where tenants' files are archived. */
  readonly store: StoreConfig;
  /** Maximum size of an uploaded archive in bytes. */
  readonly snapshotLimitBytes: number;
  /** Namespace of the builds. */
  readonly buildNamespace: string;
  /** Namespace of the keys besides `apiKey`. Undefined: there are none. */
  readonly keysNamespace: string | undefined;
  /** Whose tokens are accepted. Undefined: none are. */
  readonly oidc: OidcConfig | undefined;
  /** What a ServiceAccount's token must be issued for. Undefined: none are accepted. */
  readonly accountAudience: string | undefined;
  /** Maximum size of an uploaded build context in bytes. */
  readonly contextLimitBytes: number;
  /** Undefined: no listener for metrics and probes. */
  readonly metricsListen: ListenAddress | undefined;
  /** How long a stopping edge continues to serve after its readiness probe fails. */
  readonly stopDelayMs: number;
  /** The front door, which the role proxy serves and to which the API makes addresses. */
  readonly proxy: ProxyConfig;
  /** Undefined: no tracing. */
  readonly tracing: TracingConfig | undefined;
  /** Where the audit log goes besides memory: `stdout`, the absolute path of a file, or undefined for nowhere. */
  readonly audit: string | undefined;
  /** Where the audit log goes too; undefined: nowhere else. */
  readonly sink: SinkConfig | undefined;
  readonly logLevel: LogLevel;
}

export type EdgeRole = "api" | "gateway" | "proxy";
export type LogLevel = "debug" | "info" | "warn" | "error";

const origins = v.pipe(
  v.string(),
  v.transform((text) => text.split(",").map((part) => part.trim())),
  v.check(
    (list) => list.every((origin) => (origin === "*" ? list.length === 1 : isOrigin(origin))),
    "must be origins such as https://app.example.com, separated by commas and without a path, or only *",
  ),
);

const networks = v.pipe(
  v.string(),
  v.transform((text) => text.split(",").map((part) => parseNetwork(part.trim()))),
  v.custom<Network[]>(
    (list) => Array.isArray(list) && list.every((network) => network !== undefined),
    "must be networks such as 10.0.0.0/8 or fd00::/8, separated by commas; an IPv4 network without ::ffff:",
  ),
);

const role = v.picklist(["api", "gateway", "proxy"], "must be a list of api, gateway and proxy, separated by commas");

const proxyDomain = v.pipe(
  v.string(),
  v.regex(
    /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:\d{1,5})?$/,
    "must be a domain in lower case, such as apps.example.com, with :port if visitors must name one",
  ),
  v.transform(parseDomain),
  v.check(
    ({ name, port }) => name.length <= 189 && port !== 0 && (port ?? 0) <= 65_535 && isIP(name) === 0,
    "must be a domain of at most 189 characters, to which tenants' names are added",
  ),
);

/** A quarter of the snapshots volume's default size. */
const DEFAULT_SNAPSHOT_LIMIT = "2560Mi";

const environment = v.object({
  TENANCY_LISTEN: v.optional(listenAddress, "127.0.0.1:8080"),
  TENANCY_NAMESPACE: v.optional(namespaceName, "tenancy"),
  TENANCY_API_KEY: v.optional(
    v.pipe(v.string(), v.regex(/^[!-~]+$/, "must be printable ASCII characters without spaces")),
  ),
  TENANCY_ALLOW_ANONYMOUS: v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
  TENANCY_WS_REQUIRE_KEY: v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
  TENANCY_CORS_ORIGIN: v.optional(origins),
  TENANCY_EDGE_ROLES: v.optional(
    v.pipe(
      v.string(),
      v.transform((text) => text.split(",").map((part) => part.trim())),
      v.array(role),
    ),
    "api,gateway",
  ),
  TENANCY_TRIGGER_CLAIM_WAIT: v.optional(wholeNumber(1, 3600), "120"),
  TENANCY_TRIGGER_EVENTS_IN_FLIGHT: v.optional(wholeNumber(1, 10_000), "16"),
  TENANCY_GATEWAY_EVENTS_IN_FLIGHT: v.optional(wholeNumber(1, 100_000), "256"),
  TENANCY_SECRETS: v.optional(v.picklist(secretPolicies, "must be any or labelled"), "any"),
  ...storeEnvironment,
  TENANCY_BUILD_NAMESPACE: v.optional(namespaceName, "tenancy-builds"),
  TENANCY_KEYS_NAMESPACE: v.optional(namespaceName),
  ...oidcEnvironment,
  TENANCY_SERVICE_ACCOUNTS: v.optional(v.picklist(["on", "off"], "must be on or off"), "off"),
  TENANCY_SERVICE_ACCOUNT_AUDIENCE: v.optional(
    v.pipe(v.string(), v.regex(/^[!-~]{1,255}$/, "must be 1 to 255 printable ASCII characters without spaces")),
    "tenancy.dev",
  ),
  TENANCY_BUILD_CONTEXT_LIMIT: v.optional(quantity, "256Mi"),
  TENANCY_LEASE_SECONDS: v.optional(leaseSeconds, "10"),
  TENANCY_PROXY_LISTEN: v.optional(listenAddress, "127.0.0.1:8081"),
  TENANCY_PROXY_DOMAIN: v.optional(proxyDomain),
  TENANCY_PROXY_SCHEME: v.optional(v.picklist(["http", "https"], "must be http or https")),
  TENANCY_PROXY_TRUSTED: v.optional(networks),
  TENANCY_PROXY_API: v.optional(serverAddress),
  TENANCY_PROXY_WAIT: v.optional(wholeNumber(1, 3600), "60"),
  TENANCY_PROXY_CONNECTIONS: v.optional(wholeNumber(1, 1_000_000), "20000"),
  TENANCY_PROXY_TENANT_CONNECTIONS: v.optional(wholeNumber(1, 1_000_000), "500"),
  TENANCY_PROXY_RESPONSE_TIMEOUT: v.optional(wholeNumber(1, 86_400), "300"),
  TENANCY_PROXY_DRAIN: v.optional(wholeNumber(0, 10), "10"),
  TENANCY_PROXY_LINK_MAX: v.optional(wholeNumber(60, 31_536_000), "2592000"),
  TENANCY_PROXY_MEMORY: v.optional(quantity, "256Mi"),
  TENANCY_PROXY_LOG_RATE: v.optional(wholeNumber(0, 100_000), "100"),
  TENANCY_EDGE_METRICS_LISTEN: v.optional(listenAddressOrOff, "127.0.0.1:9091"),
  ...sinkEnvironment,
  TENANCY_AUDIT: v.optional(
    v.pipe(v.string(), v.regex(/^(off|stdout|\/.*[^/])$/, "must be off, stdout, or the absolute path of a file")),
    "stdout",
  ),
  TENANCY_STOP_DELAY: v.optional(wholeNumber(0, 300), "0"),
  TENANCY_LOG_LEVEL: v.optional(
    v.picklist(["debug", "info", "warn", "error"], "must be debug, info, warn or error"),
    "info",
  ),
});

/**
 * Reads the edge's configuration from environment variables; an empty variable is an error, not an unset one.
 *
 * @throws Error that lists every problem, and if an unset key would open the API to others
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): EdgeConfig {
  const empty = Object.keys(environment.entries).filter((name) => env[name] === "");
  if (empty.length > 0)
    throw new Error(empty.map((name) => `${name} is empty: give it a value or unset it`).join("\n"));
  const checked = v.safeParse(environment, env);
  if (!checked.success) {
    throw new Error(
      environmentProblems(checked.issues, {
        env,
        hidden: ["TENANCY_API_KEY", "TENANCY_OIDC_CLIENT_SECRET", ...sinkSecrets],
      }).join("\n"),
    );
  }
  const values = checked.output;
  const listen = values.TENANCY_LISTEN;
  const apiKey = values.TENANCY_API_KEY;
  if (apiKey === undefined && values.TENANCY_ALLOW_ANONYMOUS === "false" && !isLoopback(listen.hostname)) {
    throw new Error(
      `TENANCY_API_KEY is unset while TENANCY_LISTEN (${env.TENANCY_LISTEN}) allows other machines; set ` +
        "TENANCY_API_KEY to a secret, or TENANCY_ALLOW_ANONYMOUS=true to serve everyone without a key",
    );
  }
  const roles = new Set(values.TENANCY_EDGE_ROLES);
  const isAnonymous = values.TENANCY_ALLOW_ANONYMOUS === "true";
  if (roles.has("proxy") && apiKey === undefined && !isAnonymous && !isLoopback(values.TENANCY_PROXY_LISTEN.hostname)) {
    throw new Error(
      `TENANCY_API_KEY is unset while TENANCY_PROXY_LISTEN (${env.TENANCY_PROXY_LISTEN}) allows other ` +
        "machines; set TENANCY_API_KEY to a secret, or TENANCY_ALLOW_ANONYMOUS=true to serve everyone " +
        "without a key",
    );
  }
  if (apiKey === undefined && values.TENANCY_WS_REQUIRE_KEY === "true") {
    throw new Error("TENANCY_WS_REQUIRE_KEY requires a key, and none is set; set TENANCY_API_KEY to a secret");
  }
  const keysNamespace = values.TENANCY_KEYS_NAMESPACE;
  if (keysNamespace !== undefined && apiKey === undefined) {
    throw new Error(
      "TENANCY_KEYS_NAMESPACE is set, but without TENANCY_API_KEY no key is required; set both or neither",
    );
  }
  const shared = [values.TENANCY_NAMESPACE, values.TENANCY_BUILD_NAMESPACE];
  if (keysNamespace !== undefined && shared.includes(keysNamespace)) {
    throw new Error(
      `TENANCY_KEYS_NAMESPACE is ${keysNamespace}, where others may create Secrets and so keys; give the keys a ` +
        "namespace of their own",
    );
  }
  const hasAccounts = values.TENANCY_SERVICE_ACCOUNTS === "on";
  if (hasAccounts && apiKey === undefined) {
    throw new Error(
      "TENANCY_SERVICE_ACCOUNTS is on, but without TENANCY_API_KEY no caller needs a token; set both or neither",
    );
  }
  const corsOrigins = new Set(values.TENANCY_CORS_ORIGIN ?? []);
  if (apiKey === undefined && corsOrigins.has("*")) {
    throw new Error(
      "TENANCY_CORS_ORIGIN is *, which without TENANCY_API_KEY allows every web page to use the API; name " +
        "the allowed origins, or set TENANCY_API_KEY",
    );
  }
  return {
    listen,
    namespace: values.TENANCY_NAMESPACE,
    apiKey,
    wsRequireKey: values.TENANCY_WS_REQUIRE_KEY === "true",
    localOnly: apiKey === undefined && values.TENANCY_ALLOW_ANONYMOUS === "false",
    corsOrigins,
    roles,
    triggers: {
      claimWaitMs: values.TENANCY_TRIGGER_CLAIM_WAIT * 1000,
      perTrigger: values.TENANCY_TRIGGER_EVENTS_IN_FLIGHT,
      inAll: values.TENANCY_GATEWAY_EVENTS_IN_FLIGHT,
      leaseMs: values.TENANCY_LEASE_SECONDS * 1000,
    },
    secretPolicy: values.TENANCY_SECRETS,
    store: storeConfig(values),
    snapshotLimitBytes: bytesOf(values.TENANCY_SNAPSHOT_LIMIT ?? DEFAULT_SNAPSHOT_LIMIT),
    buildNamespace: values.TENANCY_BUILD_NAMESPACE,
    keysNamespace,
    oidc: oidcConfig(values, { apiKey }),
    accountAudience: hasAccounts ? values.TENANCY_SERVICE_ACCOUNT_AUDIENCE : undefined,
    contextLimitBytes: bytesOf(values.TENANCY_BUILD_CONTEXT_LIMIT),
    metricsListen: values.TENANCY_EDGE_METRICS_LISTEN,
    stopDelayMs: values.TENANCY_STOP_DELAY * 1000,
    proxy: proxyConfig(values, roles),
    audit: values.TENANCY_AUDIT === "off" ? undefined : values.TENANCY_AUDIT,
    sink: sinkConfig(values, { program: "edge", types: ["audit"], namespace: values.TENANCY_NAMESPACE }),
    tracing: tracingConfig(env, { service: "tenancy-edge" }),
    logLevel: values.TENANCY_LOG_LEVEL,
  };
}

const MIN_KEY_CHARACTERS = 20;

/**
 * The weakness of a key that is accepted all the same: everyone who reaches the edge can try keys, without a rate
 * limit.
 */
export function keyWarning({ apiKey }: Pick<EdgeConfig, "apiKey">): string | undefined {
  if (apiKey === undefined || apiKey.length >= MIN_KEY_CHARACTERS) return undefined;
  return `TENANCY_API_KEY has fewer than ${MIN_KEY_CHARACTERS} characters and can be guessed; create a better one with openssl rand -hex 32`;
}

/** Settings of the front door. */
export interface ProxyConfig {
  readonly listen: ListenAddress;
  /**
   * Its address for visitors: tenants' hosts are names below the domain. Undefined without the role proxy if it is not
   * set.
   */
  readonly domain: { readonly name: string; readonly port: number | undefined } | undefined;
  /** The scheme that visitors use, with this process or with a load balancer before it. */
  readonly scheme: "http" | "https";
  /** Load balancers whose statements about a request's origin are trusted. */
  readonly trusted: readonly Network[];
  /** Where the API listens, for requests to the daemon of a sandbox. Undefined: not set. */
  readonly api: ListenAddress | undefined;
  /** Milliseconds that a request waits for its pod. */
  readonly waitMs: number;
  /** Maximum number of visitors' connections. */
  readonly connections: number;
  /** Maximum concurrent requests and WebSockets of one tenant. */
  readonly tenantConnections: number;
  /** Milliseconds without data from pod and visitor before a response begins. */
  readonly responseTimeoutMs: number;
  /** Milliseconds that a release grants to requests in flight and to trigger events. */
  readonly drainMs: number;
  /** Maximum lifetime of a link. */
  readonly linkMaxSeconds: number;
  /** Memory for buffers of visitors and pods that do not read, or send incomplete messages. */
  readonly memoryBytes: number;
  /** Maximum lines of the access log per second. */
  readonly logRate: number;
}

function proxyConfig(values: v.InferOutput<typeof environment>, roles: ReadonlySet<EdgeRole>): ProxyConfig {
  const given = values.TENANCY_PROXY_DOMAIN;
  const domain = given ?? (roles.has("proxy") ? { name: "localhost", port: undefined } : undefined);
  // There are no certificates for localhost, and browsers trust it without one.
  const isLocal = domain !== undefined && /(^|\.)localhost$/.test(domain.name);
  return {
    listen: values.TENANCY_PROXY_LISTEN,
    domain,
    scheme: values.TENANCY_PROXY_SCHEME ?? (isLocal ? "http" : "https"),
    trusted: values.TENANCY_PROXY_TRUSTED ?? [],
    api: values.TENANCY_PROXY_API,
    waitMs: values.TENANCY_PROXY_WAIT * 1000,
    connections: values.TENANCY_PROXY_CONNECTIONS,
    tenantConnections: values.TENANCY_PROXY_TENANT_CONNECTIONS,
    responseTimeoutMs: values.TENANCY_PROXY_RESPONSE_TIMEOUT * 1000,
    drainMs: values.TENANCY_PROXY_DRAIN * 1000,
    linkMaxSeconds: values.TENANCY_PROXY_LINK_MAX,
    memoryBytes: bytesOf(values.TENANCY_PROXY_MEMORY),
    logRate: values.TENANCY_PROXY_LOG_RATE,
  };
}

function parseDomain(text: string): { name: string; port: number | undefined } {
  const [name = "", port] = text.split(":");
  return { name, port: port === undefined ? undefined : Number(port) };
}

function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

/** Limits of the gateway that the environment can change. */
export interface TriggerLimits {
  /** Milliseconds that an event waits for its tenant's pod. */
  readonly claimWaitMs: number;
  /** Events in flight per trigger. */
  readonly perTrigger: number;
  /** Events in flight in total. */
  readonly inAll: number;
  /** Milliseconds that a Lease is valid without a renewal. */
  readonly leaseMs: number;
}
