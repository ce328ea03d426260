import * as v from "valibot";
import { bytesOf, httpAddress, quantity, wholeNumber } from "../environment.ts";
import { WEBHOOK_SECRETS, webhookSecrets } from "../standard-webhook.ts";
import { type OutgoingType, outgoingTypes } from "./outgoing-event.ts";

/** Where events are sent, and which. */
export interface SinkConfig {
  /** `http` or `https`. */
  readonly url: string;
  /** For events that are not sent yet; no other process uses it. */
  readonly folder: string;
  readonly types: ReadonlySet<OutgoingType>;
  /** The `source` of each event. */
  readonly source: string;
  /** Each request is signed with each of these; a second one is there while the secret is replaced. */
  readonly secrets: readonly Buffer[];
  /** Sent as `Authorization: Bearer`. */
  readonly token: string | undefined;
  /** Events of one request; with 1 it is not a list. */
  readonly batch: number;
  /** Of the events that wait. */
  readonly mostBytes: number;
}

/** The variables that both the operator and the edge read. */
export const sinkEnvironment = {
  TENANCY_SINK: v.optional(httpAddress),
  TENANCY_SINK_FOLDER: v.optional(
    v.pipe(v.string(), v.regex(/^[/]./, "must be the absolute path of a folder that the program may write to")),
  ),
  TENANCY_SINK_EVENTS: v.optional(
    v.pipe(
      v.string(),
      v.transform((text) => text.split(",").map((type) => type.trim())),
      v.array(v.picklist(outgoingTypes, `must be a list of ${outgoingTypes.join(", ")}, separated by commas`)),
    ),
  ),
  TENANCY_SINK_SOURCE: v.optional(
    v.pipe(v.string(), v.regex(/^[!-~]{1,256}$/, "must be printable ASCII characters without spaces, at most 256")),
  ),
  TENANCY_SINK_SECRET: v.optional(
    v.pipe(
      v.string(),
      v.transform(webhookSecrets),
      v.custom<readonly Buffer[]>(Array.isArray, `must be ${WEBHOOK_SECRETS}`),
    ),
  ),
  TENANCY_SINK_TOKEN: v.optional(
    v.pipe(v.string(), v.regex(/^[!-~]+$/, "must be printable ASCII characters without spaces")),
  ),
  TENANCY_SINK_BATCH: v.optional(wholeNumber(1, 100)),
  TENANCY_SINK_BACKLOG: v.optional(quantity),
};

/** Variables whose values no error shows. An address may have a key in it. */
export const sinkSecrets = ["TENANCY_SINK", "TENANCY_SINK_SECRET", "TENANCY_SINK_TOKEN"];

const DEFAULT_BATCH = 100;
const DEFAULT_BACKLOG = "256Mi";

/**
 * The sink; undefined if there is none, or if it gets none of the events that this program makes.
 *
 * @param options.program its events are in a folder of that name
 * @param options.types the events that this program makes
 * @throws Error that names the variable which is missing or has no effect
 */
export function sinkConfig(
  values: v.InferOutput<v.ObjectSchema<typeof sinkEnvironment, undefined>>,
  { program, types, namespace }: { program: string; types: readonly OutgoingType[]; namespace: string },
): SinkConfig | undefined {
  const url = values.TENANCY_SINK;
  if (url === undefined) {
    const lost = Object.keys(sinkEnvironment).find((name) => values[name as keyof typeof values] !== undefined);
    if (lost !== undefined) throw new Error(`${lost} has no effect without TENANCY_SINK, the address of the sink`);
    return undefined;
  }
  if (values.TENANCY_SINK_FOLDER === undefined)
    throw new Error(
      "TENANCY_SINK needs TENANCY_SINK_FOLDER, a folder of this process alone for events that are not sent yet",
    );
  const chosen = values.TENANCY_SINK_EVENTS ?? outgoingTypes.filter((type) => type !== "audit");
  const made = types.filter((type) => chosen.includes(type));
  if (made.length === 0) return undefined;
  return {
    url,
    folder: `${values.TENANCY_SINK_FOLDER}/${program}`,
    types: new Set(made),
    source: values.TENANCY_SINK_SOURCE ?? `/namespaces/${namespace}`,
    secrets: values.TENANCY_SINK_SECRET ?? [],
    token: values.TENANCY_SINK_TOKEN,
    batch: values.TENANCY_SINK_BATCH ?? DEFAULT_BATCH,
    mostBytes: bytesOf(values.TENANCY_SINK_BACKLOG ?? DEFAULT_BACKLOG),
  };
}
