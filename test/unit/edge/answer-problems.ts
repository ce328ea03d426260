import type { JsonSchema } from "../../../crds/schema/schema.ts";
import { schemaProblems } from "../../../crds/schema/schema-problems.ts";
import type { OpenApiDocument } from "../../../edge/api/openapi/document.ts";

/** What was answered to a request on a route. */
export interface Answered {
  /** As the document writes it: `POST /api/v1/tenants/{id}/claim`. */
  route: string;
  status: number;
  contentType: string | null;
  text: string;
}

/** How an answer differs from what the document promises; nothing where it keeps to it, to the last field. */
export function answerProblems(document: OpenApiDocument, answered: Answered): string[] {
  const [method = "", path = ""] = answered.route.split(" ");
  const response = document.paths[path]?.[method.toLowerCase()]?.responses[answered.status];
  if (response === undefined) return [`${answered.route} does not document ${answered.status}: ${answered.text}`];
  const content = Object.entries(response.content ?? {});
  if (content.length === 0) return [];
  const [type, use] = content.find(([type]) => answered.contentType?.startsWith(type)) ?? [];
  if (type === undefined || use === undefined)
    return [`${answered.route} answers ${answered.contentType}, not ${content.map(([type]) => type).join(" or ")}`];
  if (type !== "application/json") return [];
  const schema = inlined(use.schema, document);
  return schemaProblems({ value: JSON.parse(answered.text), schema, path: `${answered.route} ${answered.status}` });
}

function inlined(schema: object, document: OpenApiDocument): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_, value: unknown) => {
    if (typeof value !== "object" || value === null || !("$ref" in value)) return value;
    const name = String(value.$ref).replace("#/components/schemas/", "");
    const found = document.components.schemas[name];
    if (found === undefined) throw new Error(`There is no schema ${name}`);
    return inlined(found, document);
  }) as JsonSchema;
}
