import { keyIdPattern } from "../../access/key-text.ts";
import { SESSION_COOKIE } from "../../http/session.ts";
import {
  type ApiRoute,
  errorHeaders,
  errorMeanings,
  headerMeanings,
  requestHeaders,
  type SchemaUse,
} from "../api-route.ts";
import { errorExamples, examples, leastOf, requestExamples } from "./examples.ts";
import type { OpenApiSchema } from "./request-schemas.ts";
import { nameSchema, type SchemaName, schemas, tenantIdSchema, versionNameSchema } from "./schemas.ts";
import { tagOf, tags } from "./tags.ts";

/** The part of an OpenAPI 3.1 document that is used here (https://spec.openapis.org/oas/v3.1.1.html). */
export interface OpenApiDocument {
  openapi: "3.1.0";
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  /** Contains an empty entry if the server requires no key. */
  security: Record<string, string[]>[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, DocumentedOperation>>;
  components: { schemas: Record<string, OpenApiSchema>; securitySchemes: Record<string, object> };
}

/** An operation of the document. */
export interface DocumentedOperation {
  operationId: string;
  tags: [string];
  summary: string;
  description?: string;
  security?: [];
  parameters: {
    name: string;
    in: "path" | "query" | "header";
    required: boolean;
    description?: string;
    schema: OpenApiSchema;
  }[];
  requestBody?: { required: true; content: Record<string, { schema: object; example?: unknown }> };
  responses: Record<
    string,
    {
      description: string;
      headers?: Record<string, { description: string; required: boolean; schema: OpenApiSchema }>;
      content?: Record<string, { schema: object; example?: unknown }>;
    }
  >;
}

const workloadName = { description: "Name of the workload.", schema: nameSchema };
/** By the path segment before them. */
const pathParameters: Readonly<Record<string, { description: string; schema: OpenApiSchema }>> = {
  tenants: { description: "Tenant id.", schema: tenantIdSchema },
  instances: { description: "Name of the pod.", schema: { ...nameSchema, maxLength: 253 } },
  triggers: { description: "Name of the trigger.", schema: nameSchema },
  workloads: workloadName,
  pools: { description: "Name of the pool.", schema: nameSchema },
  keys: { description: "Id of the key.", schema: { type: "string", pattern: keyIdPattern } },
  snapshots: workloadName,
  claims: workloadName,
  names: { description: "A name of the version.", schema: versionNameSchema },
  files: {
    description: "`path` in the list of files, or `encodedPath`, percent-encoded as it stands, if it has one.",
    schema: { type: "string", pattern: "^[^/]+(?:/[^/]+)*$" },
  },
  processes: {
    description: "`pid` in the list of processes.",
    schema: { type: "integer", minimum: 1, maximum: 2 ** 22 },
  },
};
/** Raw bytes (https://spec.openapis.org/oas/v3.1.1.html#binary-data). */
const rawSchema = { schema: {} };
const csvExample = "tenantId,sessions,seconds\r\nalice,3,5400.5\r\n";

/**
 * Generates the document of a route table.
 *
 * @param options.asksForKey whether non-public routes require the key; without one they refuse pages of other sites
 */
export function openApiDocument(routes: readonly ApiRoute[], options: { asksForKey: boolean }): OpenApiDocument {
  const { asksForKey } = options;
  const paths: OpenApiDocument["paths"] = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)\+?/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: documented(route, options) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "tenancy",
      version: "v1",
      description:
        "Isolated, on-demand containers for the tenants of a platform. The body of every error is `{error: string}`.",
    },
    servers: [{ url: "/" }],
    // A client generated from this document must also work with a server that requires the key.
    security: [...(asksForKey ? [] : [{}]), { apiKey: [] }, { session: [] }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: { ...schemas },
      securitySchemes: {
        apiKey: { type: "http", scheme: "bearer", description: "TENANCY_API_KEY." },
        session: { type: "apiKey", in: "cookie", name: SESSION_COOKIE, description: "Of POST /api/v1/session." },
      },
    },
  };
}

/**
 * 404 is the answer about a tenant that the key does not reach, 429 beyond the rate of the key or the tenant, and 503
 * while the keys are not known.
 */
function keyFailures({ access }: ApiRoute): readonly (401 | 403 | 404 | 429 | 503)[] {
  return access?.whose === undefined || access.whose === "own" ? [401, 403, 429, 503] : [401, 403, 404, 429, 503];
}

function documented(route: ApiRoute, { asksForKey }: { asksForKey: boolean }): DocumentedOperation {
  const { summary, description, query = {}, body, rawBody, status = 200, answer, errors = [] } = route;
  const { takes = [], tells = [], mayTell = [], streams = false, alsoAnswers } = route;
  // Every route refuses unknown query parameters.
  const always = [400, 405, 500] as const;
  const failures = [
    ...always,
    ...errors.filter((code) => asksForKey || code !== 401),
    ...(route.public === true ? [] : asksForKey ? keyFailures(route) : ([403] as const)),
  ];
  const inPath = [...route.path.matchAll(/(\w+)\/:(\w+)/g)].map(([, of = "", name = ""]) => ({ of, name }));
  return {
    operationId: operationId(route),
    tags: [tagOf(route.path)],
    summary,
    ...(description !== undefined && { description }),
    ...(route.public === true && { security: [] as [] }),
    parameters: [
      ...inPath.map(({ of, name }) => ({
        ...{ name, in: "path" as const, required: true, schema: { type: "string" as const } },
        ...(name === "workload" ? workloadName : pathParameters[of]),
      })),
      ...Object.entries(query).map(([name, schema]) => ({ name, in: "query" as const, required: false, schema })),
      ...takes.map((name) => ({ name, in: "header" as const, ...requestHeaders[name], ...ofWrite(route, name) })),
    ],
    ...(body !== undefined && {
      requestBody: {
        required: true as const,
        content: {
          "application/json": { schema: schemaOf(body), example: requestExamples[`${route.method} ${route.path}`] },
        },
      },
    }),
    ...(rawBody !== undefined && {
      requestBody: { required: true as const, content: Object.fromEntries(rawBody.map((type) => [type, rawSchema])) },
    }),
    responses: {
      [status]: {
        ...answered(answer, { streams, alsoAnswers }),
        ...(tells.length + mayTell.length > 0 && {
          headers: Object.fromEntries(
            [...tells, ...mayTell].map((name) => [
              name,
              { ...header(name), required: tells.some((one) => one === name) },
            ]),
          ),
        }),
      },
      ...(takes.includes("if-none-match") &&
        route.method === "GET" && { 304: { description: "The caller's copy is current." } }),
      ...(takes.includes("range") && {
        206: { description: "The part of the file.", content: { "application/octet-stream": rawSchema } },
      }),
      ...Object.fromEntries([...new Set(failures)].sort().map((code) => [code, failed(code)])),
    },
  };
}

/** What a header means that says something else for reads. */
function ofWrite(
  { method }: ApiRoute,
  name: keyof typeof requestHeaders,
): { schema?: OpenApiSchema; description?: string } {
  if (name !== "if-none-match" || method === "GET") return {};
  return { schema: { const: "*" }, description: "`*`: the request is refused if there is a file." };
}

function failed(status: keyof typeof errorMeanings): DocumentedOperation["responses"][string] {
  const headers = errorHeaders[status];
  return {
    description: errorMeanings[status],
    ...(headers !== undefined && { headers }),
    content: { "application/json": { schema: ref("Error"), example: { error: errorExamples[status] } } },
  };
}

function header(name: keyof typeof headerMeanings): { description: string; schema: OpenApiSchema } {
  return { description: headerMeanings[name], schema: { type: "string" } };
}

function answered(
  answer: ApiRoute["answer"],
  { streams, alsoAnswers }: { streams: boolean; alsoAnswers: ApiRoute["alsoAnswers"] },
): DocumentedOperation["responses"][string] {
  switch (answer) {
    case "websocket":
      return { description: "The WebSocket is open." };
    case "text/plain":
      return { description: "Success.", content: { [answer]: { schema: { type: "string" }, example: "hello\n" } } };
    case "text/html":
      return {
        description: "Success.",
        content: { [answer]: { schema: { type: "string" }, example: "<!doctype html>" } },
      };
    case "application/gzip":
    case "application/octet-stream":
      return {
        description: "Success.",
        content: { [answer]: rawSchema, ...(alsoAnswers !== undefined && { [alsoAnswers]: rawSchema }) },
      };
    default:
      return {
        description: "Success.",
        content: {
          "application/json": { schema: schemaOf(answer), example: exampleOf(answer) },
          ...(alsoAnswers === "text/csv" && { [alsoAnswers]: { schema: { type: "string" }, example: csvExample } }),
          ...(streams && { "application/x-ndjson": rawSchema, "text/event-stream": rawSchema }),
        },
      };
  }
}

function exampleOf(use: SchemaUse): unknown {
  if (typeof use === "string") return examples[use];
  return isList(use) ? [examples[use[0]]] : leastOf(use);
}

function isList(use: SchemaUse): use is readonly [SchemaName] {
  return Array.isArray(use);
}

function schemaOf(use: SchemaUse): object {
  if (typeof use === "string") return ref(use);
  if (isList(use)) return { type: "array", items: ref(use[0]) };
  return use;
}

function ref(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** Such as `postTenantsIdClaim`. */
function operationId({ method, path }: Pick<ApiRoute, "method" | "path">): string {
  const words = path.replace(/^\/api\/v1/, "").match(/\w+/g) ?? [];
  return method.toLowerCase() + words.map((one) => one.slice(0, 1).toUpperCase() + one.slice(1)).join("");
}
