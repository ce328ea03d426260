import { toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import type { Route } from "../http/router.ts";
import type { OpenApiSchema } from "./openapi/request-schemas.ts";
import type { SchemaName } from "./openapi/schemas.ts";

/** What each status of an error means. */
export const errorMeanings = {
  400: "The input is not valid; the message names the place.",
  401: "The API key is missing or wrong.",
  403: "A page of another site sent the request, or it names another host than this machine.",
  404: "There is no such object.",
  405: "The route does not have this method; `Allow` lists those that it has.",
  408: "The body has not arrived in time.",
  409: "The object exists already, or its state does not allow this.",
  413: "The body is too large: over 1 MiB, or a build context over its limit.",
  426: "The request is no WebSocket handshake.",
  429: "Too many claims are starting for what the cluster can do at the moment; nothing was begun. `Retry-After` says in how many seconds to try again.",
  500: "Internal error; the server's log tells more under the request id.",
  503: "The cluster cannot be reached, or has no room; try again later.",
  504: "The time is up; what was asked for may still go on.",
} as const;

/** What the headers mean that some routes take or answer with. */
export const headerMeanings = {
  etag: "Names what is answered: a spec for `If-Match`, whose status may change under it, an archive for `If-None-Match`.",
  "x-tenancy-next": "The `after` of the next page; absent on the last one.",
  "x-tenancy-version": "How new the list is: every change up to this resourceVersion is in it.",
} as const;

/** The headers that some routes read. */
export const requestHeaders = {
  "if-match": {
    required: false,
    description: "The ETag of what was read: what is asked for is refused where the spec has changed since.",
    schema: { type: "string" },
  },
  "if-none-match": {
    required: false,
    description: "The ETag of what the caller has: the answer is 304 without a body where nothing has changed.",
    schema: { type: "string" },
  },
  upgrade: {
    required: true,
    description: "Of the WebSocket handshake (RFC 6455).",
    schema: { type: "string", pattern: "^[Ww][Ee][Bb][Ss][Oo][Cc][Kk][Ee][Tt]$" },
  },
  "sec-websocket-version": { required: true, description: "Of the handshake.", schema: { const: "13" } },
  "sec-websocket-key": {
    required: true,
    description: "Of the handshake: 16 bytes in base64.",
    schema: { type: "string", pattern: "^[+/0-9A-Za-z]{22}==$" },
  },
} as const satisfies Record<string, { required: boolean; description: string; schema: OpenApiSchema }>;

/** A route of the REST API: what it serves and what the OpenAPI document says of it, in one place. */
export interface ApiRoute extends Route {
  readonly summary: string;
  readonly description?: string;
  readonly query?: Readonly<Record<string, OpenApiSchema>>;
  /** The request's body; {@link bodySchema} makes it of the schema that the handler checks the body with. */
  readonly body?: SchemaUse;
  /** The media types of a body that is not JSON. */
  readonly rawBody?: readonly string[];
  /** The status of success. @default 200 */
  readonly status?: 101 | 200 | 201;
  /** The schema of a success, or a media type where it is not JSON. `[name]` is a list. */
  readonly answer: SchemaUse | "text/plain" | "text/html" | "application/gzip" | "websocket";
  /** Headers that it reads. */
  readonly takes?: readonly (keyof typeof requestHeaders)[];
  /** Headers of a success. */
  readonly tells?: readonly ("etag" | "x-tenancy-version")[];
  /** Headers that a success may have. */
  readonly mayTell?: readonly "x-tenancy-next"[];
  /** Statuses of errors that this route can answer, beyond 400, 401, 403, 405 and 500. */
  readonly errors?: readonly (keyof typeof errorMeanings)[];
}

/** A schema in place, or the name of one that several routes share. */
export type SchemaUse = OpenApiSchema | SchemaName | readonly [SchemaName];

/** The schema of a query parameter that `queryFlag` reads. */
export function flagSchema(description: string): OpenApiSchema {
  return { type: "boolean", description, default: false };
}

/**
 * The JSON Schema of what `readJson` accepts with a valibot schema. What only a `v.check` says is added by
 * `v.metadata`.
 */
export function bodySchema(schema: v.GenericSchema): OpenApiSchema {
  const { $schema, $defs, ...body } = toJsonSchema(schema, {
    errorMode: "ignore",
    overrideSchema: ({ valibotSchema, jsonSchema }) => (valibotSchema.type === "lazy" ? {} : jsonSchema),
  });
  return body as OpenApiSchema;
}
