import { toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import type { Route } from "../http/router.ts";
import type { OpenApiSchema } from "./openapi/request-schemas.ts";
import type { SchemaName } from "./openapi/schemas.ts";

/** Meaning of each error status. */
export const errorMeanings = {
  400: "The input is not valid; the message names the field.",
  401: "The API key is missing or wrong.",
  403: "A page of another site sent the request, or the request names a host other than this machine.",
  404: "The object does not exist.",
  405: "The route does not support this method; `Allow` lists the supported ones.",
  408: "The body did not arrive in time.",
  409: "The object already exists, or its state does not allow this.",
  410: "Another pod of this name has taken the instance's place.",
  413: "The body is too large: over 1 MiB, or a build context over its limit.",
  416: "The file has no such part; nothing was sent.",
  426: "The request is no WebSocket handshake.",
  429: "Too many claims are starting for what the cluster can do at the moment, the tenant's quota has no room, the key or the tenant has used up its requests of the second, or the tenant reads its usage already; nothing was begun. `Retry-After` says in how many seconds to try again.",
  500: "Internal error; the server's log tells more under the request id.",
  503: "The cluster cannot be reached, or has no room; try again later.",
  504: "The time is up; what was asked for may still go on.",
  507: "The instance's disk, or its user's share of it, is full.",
} as const;

const retryAfter = {
  description: "Seconds to wait before the next try.",
  schema: { type: "integer", minimum: 1 },
} as const;

/** Headers of errors. */
export const errorHeaders: Readonly<
  Partial<
    Record<
      keyof typeof errorMeanings,
      Record<string, { description: string; required: boolean; schema: OpenApiSchema }>
    >
  >
> = {
  401: {
    "www-authenticate": { required: false, description: "How to authenticate: `Bearer`.", schema: { type: "string" } },
  },
  405: { allow: { required: true, description: "The supported methods.", schema: { type: "string" } } },
  429: { "retry-after": { required: true, ...retryAfter } },
  503: { "retry-after": { required: false, ...retryAfter } },
};

/** Meaning of request and response headers. */
export const headerMeanings = {
  etag: "Identifies the content: a spec for `If-Match`, which stays the same while only the status changes, or saved files for `If-None-Match`.",
  "x-tenancy-next": "The `after` parameter of the next page; absent on the last page.",
  "x-tenancy-version": "The list contains every change up to this resourceVersion.",
} as const;

/** Headers that some routes read. */
export const requestHeaders = {
  "if-match": {
    required: false,
    description: "The ETag of the object as it was read: the request is refused if the spec has changed since.",
    schema: { type: "string" },
  },
  "if-none-match": {
    required: false,
    description: "The ETag of the caller's copy: the response is 304 without a body if nothing has changed.",
    schema: { type: "string" },
  },
  range: {
    required: false,
    description:
      "A part of the file, such as `bytes=0-99`: the response is 206 with it, or 416 if the file is shorter.",
    schema: { type: "string" },
  },
  "if-range": {
    required: false,
    description: "The ETag that the part is of: if the file has another, all of it is sent.",
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

/** A route of the REST API together with its description in the OpenAPI document. */
export interface ApiRoute extends Route {
  readonly summary: string;
  readonly description?: string;
  readonly query?: Readonly<Record<string, OpenApiSchema>>;
  /** The request body; {@link bodySchema} derives it from the schema that the handler validates with. */
  readonly body?: SchemaUse;
  /** Media types of a body that is not JSON. */
  readonly rawBody?: readonly string[];
  /** Status of a successful response. @default 200 */
  readonly status?: 101 | 200 | 201;
  /** Schema of a successful response, or its media type if it is not JSON. `[name]` is a list. */
  readonly answer:
    | SchemaUse
    | "text/plain"
    | "text/html"
    | "application/gzip"
    | "application/octet-stream"
    | "websocket";
  /** The media type of another form that the answer can have. */
  readonly alsoAnswers?: "application/gzip" | "text/csv";
  /** Whether the answer can be a stream of events instead. @default false */
  readonly streams?: boolean;
  /** Request headers that it reads. */
  readonly takes?: readonly (keyof typeof requestHeaders)[];
  /** Headers of every successful response. */
  readonly tells?: readonly ("etag" | "x-tenancy-version")[];
  /** Headers that a successful response may have. */
  readonly mayTell?: readonly ("etag" | "x-tenancy-next")[];
  /** Error statuses of this route in addition to 400, 401, 403, 405 and 500. */
  readonly errors?: readonly (keyof typeof errorMeanings)[];
}

/** An inline schema, or the name of a shared one. */
export type SchemaUse = OpenApiSchema | SchemaName | readonly [SchemaName];

/** Schema of a query parameter that `queryFlag` reads. */
export function flagSchema(description: string): OpenApiSchema {
  return { type: "boolean", description, default: false };
}

/**
 * The JSON Schema of what `readJson` accepts with a valibot schema. `v.metadata` adds what only a `v.check` expresses.
 */
export function bodySchema(schema: v.GenericSchema): OpenApiSchema {
  const { $schema, $defs, ...body } = toJsonSchema(schema, {
    errorMode: "ignore",
    overrideSchema: ({ valibotSchema, jsonSchema }) => (valibotSchema.type === "lazy" ? {} : jsonSchema),
  });
  return body as OpenApiSchema;
}
