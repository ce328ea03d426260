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
  wholeNumber,
} from "../crds/environment.ts";
import { type SecretPolicy, secretPolicies } from "../crds/secret-refusal.ts";
import { isLoopback } from "./http/page-check.ts";

/** The edge's settings, from its environment. */
export interface EdgeConfig {
  readonly listen: ListenAddress;
  readonly namespace: string;
  /** Undefined: everyone is answered without a key. */
  readonly apiKey: string | undefined;
  /** Whether `/ws` asks for the key too. */
  readonly wsRequireKey: boolean;
  /** Neither a key nor `TENANCY_ALLOW_ANONYMOUS`: this machine alone is answered. */
  readonly localOnly: boolean;
  /** Origins whose pages may use the API; `*` for all. */
  readonly corsOrigins: ReadonlySet<string>;
  readonly roles: ReadonlySet<EdgeRole>;
  readonly triggers: TriggerLimits;
  /** Which Secrets triggers can name. */
  readonly secretPolicy: SecretPolicy;
  /** Where images are built. */
  readonly buildNamespace: string;
  /** Bytes that a build context may have as it is uploaded. */
  readonly contextLimitBytes: number;
  /** Undefined: no listener for metrics and probes. */
  readonly metricsListen: ListenAddress | undefined;
  readonly logLevel: LogLevel;
}

export type EdgeRole = "api" | "gateway";
export type LogLevel = "debug" | "info" | "warn" | "error";

const origins = v.pipe(
  v.string(),
  v.transform((text) => text.split(",").map((part) => part.trim())),
  v.check(
    (list) => list.every((origin) => (origin === "*" ? list.length === 1 : isOrigin(origin))),
    "must be origins such as https://app.example.com, by commas and without a path, or * alone",
  ),
);

const role = v.picklist(["api", "gateway"], "must be api, gateway or api,gateway");

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
  TENANCY_BUILD_NAMESPACE: v.optional(namespaceName, "tenancy-builds"),
  TENANCY_BUILD_CONTEXT_LIMIT: v.optional(quantity, "256Mi"),
  TENANCY_LEASE_SECONDS: v.optional(leaseSeconds, "10"),
  TENANCY_EDGE_METRICS_LISTEN: v.optional(listenAddressOrOff, "127.0.0.1:9091"),
  TENANCY_LOG_LEVEL: v.optional(
    v.picklist(["debug", "info", "warn", "error"], "must be debug, info, warn or error"),
    "info",
  ),
});

/**
 * Reads the edge's configuration from environment variables; an empty one is a mistake, not an unset one.
 *
 * @throws Error that lists every problem, and where an unset key would leave the API open to others
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): EdgeConfig {
  const empty = Object.keys(environment.entries).filter((name) => env[name] === "");
  if (empty.length > 0)
    throw new Error(empty.map((name) => `${name} is empty: give it a value or unset it`).join("\n"));
  const checked = v.safeParse(environment, env);
  if (!checked.success) {
    throw new Error(environmentProblems(checked.issues, { env, hidden: ["TENANCY_API_KEY"] }).join("\n"));
  }
  const values = checked.output;
  const listen = values.TENANCY_LISTEN;
  const apiKey = values.TENANCY_API_KEY;
  if (apiKey === undefined && values.TENANCY_ALLOW_ANONYMOUS === "false" && !isLoopback(listen.hostname)) {
    throw new Error(
      `TENANCY_API_KEY is unset while TENANCY_LISTEN (${env.TENANCY_LISTEN}) lets other machines in; ` +
        "set TENANCY_API_KEY to a secret, or TENANCY_ALLOW_ANONYMOUS=true to serve everyone without a key",
    );
  }
  if (apiKey === undefined && values.TENANCY_WS_REQUIRE_KEY === "true") {
    throw new Error("TENANCY_WS_REQUIRE_KEY asks for a key that is not set; set TENANCY_API_KEY to a secret");
  }
  const corsOrigins = new Set(values.TENANCY_CORS_ORIGIN ?? []);
  if (apiKey === undefined && corsOrigins.has("*")) {
    throw new Error(
      "TENANCY_CORS_ORIGIN is *, which without TENANCY_API_KEY lets every page that anybody opens use the API; " +
        "name the origins that may, or set TENANCY_API_KEY",
    );
  }
  return {
    listen,
    namespace: values.TENANCY_NAMESPACE,
    apiKey,
    wsRequireKey: values.TENANCY_WS_REQUIRE_KEY === "true",
    localOnly: apiKey === undefined && values.TENANCY_ALLOW_ANONYMOUS === "false",
    corsOrigins,
    roles: new Set(values.TENANCY_EDGE_ROLES),
    triggers: {
      claimWaitMs: values.TENANCY_TRIGGER_CLAIM_WAIT * 1000,
      perTrigger: values.TENANCY_TRIGGER_EVENTS_IN_FLIGHT,
      inAll: values.TENANCY_GATEWAY_EVENTS_IN_FLIGHT,
      leaseMs: values.TENANCY_LEASE_SECONDS * 1000,
    },
    secretPolicy: values.TENANCY_SECRETS,
    buildNamespace: values.TENANCY_BUILD_NAMESPACE,
    contextLimitBytes: bytesOf(values.TENANCY_BUILD_CONTEXT_LIMIT),
    metricsListen: values.TENANCY_EDGE_METRICS_LISTEN,
    logLevel: values.TENANCY_LOG_LEVEL,
  };
}

const MIN_KEY_CHARACTERS = 20;

/**
 * What is wrong with a key that is allowed all the same: whoever reaches the edge can try keys, and no bound is kept.
 */
export function keyWarning({ apiKey }: Pick<EdgeConfig, "apiKey">): string | undefined {
  if (apiKey === undefined || apiKey.length >= MIN_KEY_CHARACTERS) return undefined;
  return `TENANCY_API_KEY has fewer than ${MIN_KEY_CHARACTERS} characters and can be guessed; openssl rand -hex 32 makes a better one`;
}

function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

/** The gateway's bounds, which the environment can change. */
export interface TriggerLimits {
  /** Milliseconds that an event waits for its tenant's pod. */
  readonly claimWaitMs: number;
  /** Events in flight for each trigger. */
  readonly perTrigger: number;
  /** Events in flight in all. */
  readonly inAll: number;
  /** How long a Lease holds without a renewal, in milliseconds. */
  readonly leaseMs: number;
}
