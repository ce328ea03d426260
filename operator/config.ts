import * as v from "valibot";
import { type ListenAddress, parseListenAddress } from "../crds/listen-address.ts";

const positiveNumber = v.pipe(
  v.string(),
  v.transform(Number),
  v.number(),
  v.finite(),
  v.gtValue(0, "must be greater than 0"),
);

const listenAddress = v.union(
  [
    v.pipe(
      v.literal("off"),
      v.transform(() => undefined),
    ),
    v.pipe(
      v.string(),
      v.transform(parseListenAddress),
      v.custom<ListenAddress>((parsed) => parsed !== undefined),
    ),
  ],
  "must be host:port, or off",
);

const environment = v.object({
  TENANCY_NAMESPACE: v.optional(
    v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be the name of a namespace")),
    "tenancy",
  ),
  TENANCY_CPU_OVERCOMMIT: v.optional(positiveNumber, "1"),
  TENANCY_MEMORY_OVERCOMMIT: v.optional(positiveNumber, "1"),
  TENANCY_START_TIMEOUT: v.optional(positiveNumber, "300"),
  TENANCY_LEASE_SECONDS: v.optional(v.pipe(positiveNumber, v.minValue(2, "must be at least 2")), "10"),
  TENANCY_OPERATOR_LISTEN: v.optional(listenAddress, "127.0.0.1:9090"),
  TENANCY_LOG_LEVEL: v.optional(v.picklist(["debug", "info", "warn", "error"]), "info"),
});

export interface OperatorConfig {
  /** The namespace of all resources. */
  namespace: string;
  /** Pod requests are limits divided by these. */
  cpuOvercommit: number;
  memoryOvercommit: number;
  /** How long a scheduled pod may take to become Ready before its claim fails, in milliseconds. */
  startTimeoutMs: number;
  /** How long the leader's lease holds without a renewal, in milliseconds. */
  leaseMs: number;
  /** Where `/metrics`, `/healthz` and `/readyz` are served; undefined: nowhere. */
  listen: ListenAddress | undefined;
  logLevel: string;
}

/**
 * Reads the operator's configuration from environment variables.
 *
 * @throws Error that names each variable that is wrong and what it must be
 */
export function operatorConfig(env: Record<string, string | undefined>): OperatorConfig {
  const parsed = v.safeParse(environment, env);
  if (!parsed.success) {
    const problems = parsed.issues.map((issue) => `${issue.path?.[0]?.key}: ${issue.message}, not ${issue.received}`);
    throw new Error(`Cannot start the operator: ${problems.join("; ")}`);
  }
  const values = parsed.output;
  return {
    namespace: values.TENANCY_NAMESPACE,
    cpuOvercommit: values.TENANCY_CPU_OVERCOMMIT,
    memoryOvercommit: values.TENANCY_MEMORY_OVERCOMMIT,
    startTimeoutMs: values.TENANCY_START_TIMEOUT * 1000,
    leaseMs: values.TENANCY_LEASE_SECONDS * 1000,
    listen: values.TENANCY_OPERATOR_LISTEN,
    logLevel: values.TENANCY_LOG_LEVEL,
  };
}
