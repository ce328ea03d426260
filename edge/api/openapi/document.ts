import { pattern } from "../../../crds/schema/patterns.ts";
import type { Route } from "../../http/router.ts";
import { errorMeanings, type Operation, type SchemaUse } from "./operations.ts";
import type { OpenApiSchema } from "./request-schemas.ts";
import { schemas } from "./schemas.ts";

/** The part of an OpenAPI 3.1 document that is written here (https://spec.openapis.org/oas/v3.1.1.html). */
export interface OpenApiDocument {
  openapi: "3.1.0";
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  /** Only where the server asks for a key. */
  security?: Record<string, string[]>[];
  paths: Record<string, Record<string, DocumentedOperation>>;
  components: { schemas: Record<string, OpenApiSchema>; securitySchemes?: Record<string, object> };
}

/** One operation of the document. */
export interface DocumentedOperation {
  operationId: string;
  summary: string;
  description?: string;
  security?: [];
  parameters: { name: string; in: "path" | "query"; required: boolean; description?: string; schema: OpenApiSchema }[];
  requestBody?: { required: true; content: Record<string, { schema: object }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: object }> }>;
}

/** What the document reads of a route. */
type DescribedRoute = Pick<Route, "method" | "path" | "public" | "query">;

const objectName: OpenApiSchema = { type: "string", pattern: pattern.subdomain, maxLength: 63 };
const workloadName = { description: "Name of the workload.", schema: objectName };
/** By the segment before them. */
const pathParameters: Readonly<Record<string, { description: string; schema: OpenApiSchema }>> = {
  tenants: { description: "Tenant id.", schema: { type: "string", pattern: pattern.tenantId, maxLength: 63 } },
  instances: { description: "Name of the pod.", schema: { ...objectName, maxLength: 253 } },
  triggers: { description: "Name of the trigger.", schema: objectName },
  workloads: workloadName,
  snapshots: workloadName,
};
const errorUse = { schema: ref("Error") };

/**
 * Writes the document of a route table.
 *
 * @param operations what to say of each route, by `METHOD path`
 * @param options.asksForKey whether routes that are not public ask for the key; without one they refuse pages of other sites
 * @throws Error where a route is not described, or a description has no route
 */
export function openApiDocument(
  routes: readonly DescribedRoute[],
  operations: Readonly<Record<string, Operation>>,
  options: { asksForKey: boolean },
): OpenApiDocument {
  const { asksForKey } = options;
  const paths: OpenApiDocument["paths"] = {};
  const left = new Set(Object.keys(operations));
  for (const route of routes) {
    const key = `${route.method} ${route.path}`;
    const operation = operations[key];
    if (operation === undefined) throw new Error(`Cannot document ${key}: nothing is said of it`);
    left.delete(key);
    const [taken, described] = [[...(route.query ?? [])], Object.keys(operation.query ?? {})].map((names) =>
      names.toSorted(),
    );
    if (String(taken) !== String(described))
      throw new Error(`Cannot document ${key}: it takes the query [${taken}], and [${described}] is described`);
    const path = route.path.replaceAll(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: documented(route, operation, options) };
  }
  if (left.size > 0) throw new Error(`Cannot document ${[...left].join(", ")}: there is no such route`);
  return {
    openapi: "3.1.0",
    info: {
      title: "tenancy",
      version: "v1",
      description:
        "Isolated, on-demand containers for the tenants of a platform. Every error's body is `{error: string}`.",
    },
    servers: [{ url: "/" }],
    ...(asksForKey && { security: [{ apiKey: [] }] }),
    paths,
    components: {
      schemas: { ...schemas },
      ...(asksForKey && {
        securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "TENANCY_API_KEY." } },
      }),
    },
  };
}

function documented(
  route: DescribedRoute,
  operation: Operation,
  { asksForKey }: { asksForKey: boolean },
): DocumentedOperation {
  const { summary, description, query = {}, body, status = 200, answer, errors = [] } = operation;
  // Each refuses query parameters that it does not know.
  const always = [400, 405, 500] as const;
  const failures = [
    ...always,
    ...errors,
    ...(route.public === true ? [] : [asksForKey ? (401 as const) : (403 as const)]),
  ];
  const inPath = [...route.path.matchAll(/(\w+)\/:(\w+)/g)].map(([, of = "", name = ""]) => ({ of, name }));
  return {
    operationId: operationId(route),
    summary,
    ...(description !== undefined && { description }),
    ...(asksForKey && route.public === true && { security: [] as [] }),
    parameters: [
      ...inPath.map(({ of, name }) => ({
        ...{ name, in: "path" as const, required: true, schema: { type: "string" as const } },
        ...pathParameters[of],
      })),
      ...Object.entries(query).map(([name, schema]) => ({ name, in: "query" as const, required: false, schema })),
    ],
    ...(body !== undefined && {
      requestBody: { required: true as const, content: { "application/json": { schema: schemaOf(body) } } },
    }),
    responses: {
      [status]: answered(answer),
      ...Object.fromEntries(
        [...new Set(failures)]
          .sort()
          .map((code) => [code, { description: errorMeanings[code], content: { "application/json": errorUse } }]),
      ),
    },
  };
}

function answered(answer: Operation["answer"]): DocumentedOperation["responses"][string] {
  switch (answer) {
    case "websocket":
      return { description: "The WebSocket is open." };
    case "text/plain":
    case "text/html":
      return { description: "Success.", content: { [answer]: { schema: { type: "string" } } } };
    default:
      return { description: "Success.", content: { "application/json": { schema: schemaOf(answer) } } };
  }
}

function schemaOf(use: SchemaUse): object {
  if (typeof use === "string") return ref(use);
  if (Array.isArray(use)) return { type: "array", items: ref(use[0]) };
  return use;
}

function ref(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** Such as `postTenantsIdClaim`. */
function operationId({ method, path }: Pick<Route, "method" | "path">): string {
  const words = path.replace(/^\/api\/v1/, "").match(/\w+/g) ?? [];
  return method.toLowerCase() + words.map((one) => one.slice(0, 1).toUpperCase() + one.slice(1)).join("");
}
