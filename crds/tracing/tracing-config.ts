import * as v from "valibot";
import { environmentProblems, httpAddress } from "../environment.ts";
import type { Sampler } from "./tracer.ts";

/** The collector of traces, and which traces are recorded. */
export interface TracingConfig {
  /** The address of the collector, with its path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The attributes of this process, for all its spans. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: Sampler;
  /** Milliseconds for which spans are collected before an export. */
  readonly delayMs: number;
}

const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

const protocol = v.literal("http/json", "must be http/json, the only supported protocol for traces");
const headerList = v.pipe(
  v.string(),
  v.transform((text) => pairsOf(text)),
  v.custom<Record<string, string>>(
    isHeaders,
    "must be pairs such as name=value, separated by commas and percent-encoded",
  ),
  v.transform((pairs) => Object.fromEntries(Object.entries(pairs).map(([name, value]) => [name.toLowerCase(), value]))),
);

const environment = v.object({
  OTEL_SDK_DISABLED: v.optional(v.string()),
  OTEL_TRACES_EXPORTER: v.optional(v.picklist(["otlp", "none"], "must be otlp or none")),
  OTEL_EXPORTER_OTLP_ENDPOINT: v.optional(httpAddress),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: v.optional(httpAddress),
  OTEL_EXPORTER_OTLP_PROTOCOL: v.optional(protocol),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: v.optional(protocol),
  OTEL_EXPORTER_OTLP_HEADERS: v.optional(headerList),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: v.optional(headerList),
  OTEL_SERVICE_NAME: v.optional(v.string()),
  OTEL_RESOURCE_ATTRIBUTES: v.optional(
    v.pipe(
      v.string(),
      v.transform((text) => pairsOf(text)),
      v.custom<Record<string, string>>(
        (pairs) => pairs !== undefined,
        "must be pairs such as deployment.environment.name=prod, separated by commas and percent-encoded",
      ),
    ),
  ),
  OTEL_TRACES_SAMPLER: v.optional(v.picklist(SAMPLERS, `must be one of ${SAMPLERS.join(", ")}`)),
  OTEL_TRACES_SAMPLER_ARG: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^(0(\.[0-9]+)?|1(\.0+)?)$/, "must be a number from 0 to 1, such as 0.1"),
      v.transform(Number),
    ),
  ),
  OTEL_BSP_SCHEDULE_DELAY: v.optional(
    v.pipe(v.string(), v.regex(/^[0-9]{1,6}$/, "must be a whole number of milliseconds"), v.transform(Number)),
  ),
});

const secret = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
/** Their values are hidden too: an address may contain a key or a password. */
const addresses = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/**
 * Reads OpenTelemetry's environment variables; an empty one counts as unset. Undefined without an endpoint: then no
 * traces are recorded.
 *
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 *
 * @param options.service the default name of the service
 * @throws Error that names each invalid variable and what it must be
 */
export function tracingConfig(
  env: Readonly<Record<string, string | undefined>>,
  { service }: { service: string },
): TracingConfig | undefined {
  const set = Object.fromEntries(Object.entries(env).filter(([name, value]) => /^OTEL_/.test(name) && value !== ""));
  const isOn = addresses.some((name) => set[name] !== undefined);
  if (!isOn || set.OTEL_SDK_DISABLED?.toLowerCase() === "true" || set.OTEL_TRACES_EXPORTER === "none") return undefined;
  const checked = v.safeParse(environment, set);
  if (!checked.success)
    throw new Error(environmentProblems(checked.issues, { env: set, hidden: [...secret, ...addresses] }).join("\n"));
  const values = checked.output;
  const given = values.OTEL_RESOURCE_ATTRIBUTES ?? {};
  return {
    url: values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? tracesBelow(values.OTEL_EXPORTER_OTLP_ENDPOINT ?? ""),
    headers: {
      ...(values.OTEL_EXPORTER_OTLP_TRACES_HEADERS ?? values.OTEL_EXPORTER_OTLP_HEADERS),
      "content-type": "application/json",
    },
    resource: { ...given, "service.name": values.OTEL_SERVICE_NAME ?? given["service.name"] ?? service },
    sampler: samplerOf(values.OTEL_TRACES_SAMPLER ?? "parentbased_always_on", values.OTEL_TRACES_SAMPLER_ARG ?? 1),
    delayMs: values.OTEL_BSP_SCHEDULE_DELAY ?? 5000,
  };
}

/** https://opentelemetry.io/docs/specs/otel/trace/sdk/#sampling */
function samplerOf(name: (typeof SAMPLERS)[number], ratio: number): Sampler {
  switch (name) {
    case "always_on":
      return () => true;
    case "always_off":
      return () => false;
    case "traceidratio":
      return (_, traceId) => isInRatio(traceId, ratio);
    case "parentbased_always_on":
      return (parent) => parent?.sampled ?? true;
    case "parentbased_always_off":
      return (parent) => parent?.sampled ?? false;
    case "parentbased_traceidratio":
      return (parent, traceId) => parent?.sampled ?? isInRatio(traceId, ratio);
    default:
      return name satisfies never;
  }
}

/** Whether a trace is in the recorded share, by the last 52 bits of its id, which are random. */
function isInRatio(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-13), 16) >= (1 - ratio) * 2 ** 52;
}

/** The address for traces at a collector with that base address. */
function tracesBelow(base: string): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/traces`;
  return url.href;
}

/** Pairs separated by commas, with percent-encoded values (https://www.w3.org/TR/baggage/#definition), or undefined. */
function pairsOf(text: string): Record<string, string> | undefined {
  const pairs: Record<string, string> = {};
  for (const part of text.split(",")) {
    const [, key = "", value = ""] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? [];
    if (key === "") return undefined;
    try {
      pairs[key] = decodeURIComponent(value);
    } catch {
      return undefined;
    }
  }
  return pairs;
}

function isHeaders(pairs: unknown): boolean {
  if (pairs === undefined) return false;
  const entries = Object.entries(pairs as Record<string, string>);
  return entries.every(([name, value]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[ -~]*$/.test(value));
}
