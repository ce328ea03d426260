import type { DocumentedOperation, OpenApiDocument } from "../../edge/api/openapi/document.ts";
import type { OpenApiSchema } from "../../edge/api/openapi/request-schemas.ts";

const HEADER = `// Generated from the routes of edge/api by \`npm run client\`: change those, not this file.

/** A body that is sent as it is. A stream is sent while it is read, and cannot be sent twice. */
export type RawBody = string | Uint8Array | Blob | ReadableStream<Uint8Array>;
`;
/** The body of an answer that is neither JSON nor text. */
const RAW_ANSWER = "Response";

/**
 * The TypeScript of an API's schemas and operations. An operation is named by its method and path, such as
 * `POST /api/v1/tenants/{id}/claim`; WebSockets are left out.
 *
 * Only what types can express is written, so `pattern`, `maximum`, `not` and `allOf` are not.
 */
export function operationTypes(document: OpenApiDocument): string {
  const names: NamesByType = new Map();
  const types = Object.entries(document.components.schemas)
    // That of the failures, which are thrown.
    .filter(([name]) => name !== "Error")
    .map(([name, schema]) => {
      const type = typeOf(schema, { indent: "", names });
      if (type.startsWith("{")) names.set(type, name);
      return `${comment(schema.description, "")}export type ${name} = ${type};\n`;
    });
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { responses }]) => responses[101] === undefined)
      .map(([method, operation]) => operationType(`${method.toUpperCase()} ${path}`, operation, names)),
  );
  return [
    HEADER,
    ...types,
    `/** By method and path. */\nexport interface Operations {\n${operations.join("")}}\n`,
  ].join("\n");
}

/** The names of the objects that are written so far, by their text without an indent: each is written once. */
type NamesByType = Map<string, string>;

interface Place {
  readonly indent: string;
  readonly names: NamesByType;
}

function operationType(name: string, operation: DocumentedOperation, names: NamesByType): string {
  const at: Place = { indent: "    ", names };
  const { summary, description, parameters, requestBody, responses } = operation;
  const fields = (["path", "query", "header"] as const).flatMap((place) => {
    const found = parameters.filter((one) => one.in === place);
    if (found.length === 0) return [];
    const properties = found.map(({ name, required, description, schema }) => ({
      ...{ name, required },
      schema: { ...schema, ...(description !== undefined && { description }) },
    }));
    const isNeeded = found.some(({ required }) => required);
    const type = objectType(properties, at, { isInput: true });
    return [`    ${place === "header" ? "headers" : place}${isNeeded ? "" : "?"}: ${type};\n`];
  });
  const json = requestBody?.content["application/json"];
  if (json !== undefined) fields.push(`    body: ${typeOf(json.schema, at)};\n`);
  else if (requestBody !== undefined) {
    const mediaTypes = Object.keys(requestBody.content).map((type) => JSON.stringify(type));
    fields.push(`    body: RawBody;\n    /** @default the first */\n    contentType?: ${mediaTypes.join(" | ")};\n`);
  }
  const success = Object.entries(responses).find(([status]) => status.startsWith("2"))?.[1];
  const { "application/json": answer, "text/plain": text } = success?.content ?? {};
  const answerType = answer !== undefined ? typeOf(answer.schema, at) : text !== undefined ? "string" : RAW_ANSWER;
  const words = description === undefined ? `${summary}.` : `${summary}. ${description}`;
  return `${comment(words, "  ")}  ${JSON.stringify(name)}: {\n${fields.join("")}    answer: ${answerType};\n  };\n`;
}

interface Property {
  readonly name: string;
  readonly required: boolean;
  readonly schema: OpenApiSchema;
}

/** @param options.isInput whether undefined may be given for what is optional @default false */
function objectType(
  properties: readonly Property[],
  { indent, names }: Place,
  { isInput = false, rest }: { isInput?: boolean; rest?: string } = {},
): string {
  const inner = `${indent}  `;
  const lines = properties.map(({ name, required, schema }) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    const type = `${typeOf(schema, { indent: inner, names })}${isInput && !required ? " | undefined" : ""}`;
    return `${comment(schema.description, inner)}${inner}${key}${required ? "" : "?"}: ${type};\n`;
  });
  if (rest !== undefined) lines.push(`${inner}[name: string]: ${rest};\n`);
  return lines.length === 0 ? "Record<string, never>" : `{\n${lines.join("")}${indent}}`;
}

function typeOf(schema: OpenApiSchema, at: Place): string {
  const { $ref, const: value, enum: words, anyOf, oneOf, type, properties, additionalProperties, items } = schema;
  const alternatives = anyOf ?? oneOf;
  if ($ref !== undefined) return $ref.slice($ref.lastIndexOf("/") + 1);
  if (value !== undefined) return JSON.stringify(value);
  if (words !== undefined) return words.map((word) => JSON.stringify(word)).join(" | ");
  // Beside a type they only narrow it.
  if (alternatives !== undefined && type === undefined)
    return [...new Set(alternatives.map((one) => typeOf(one, at)))].join(" | ");
  switch (type as string | undefined) {
    case "string":
    case "boolean":
    case "null":
      return type as string;
    case "integer":
    case "number":
      return "number";
    case "array": {
      const item = items === undefined ? "unknown" : typeOf(items, at);
      return / \| /.test(item) && !item.startsWith("{") ? `(${item})[]` : `${item}[]`;
    }
    case "object": {
      const isOpen = additionalProperties !== undefined && (additionalProperties as unknown) !== false;
      const rest = isOpen ? typeOf(additionalProperties as OpenApiSchema, at) : undefined;
      if (properties === undefined) return rest === undefined ? "Record<string, unknown>" : `Record<string, ${rest}>`;
      const required = new Set(schema.required);
      const all = Object.entries(properties).map(([name, of]) => ({ name, required: required.has(name), schema: of }));
      const options = rest === undefined ? {} : { rest };
      const name = at.names.get(objectType(all, { ...at, indent: "" }, options));
      return name ?? objectType(all, at, options);
    }
    default:
      return "unknown";
  }
}

/** A docstring; comment lines have at most 120 columns. */
function comment(text: string | undefined, indent: string): string {
  if (text === undefined) return "";
  const words = text.replaceAll("*/", "*\\/").split(/\s+/);
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && indent.length + 3 + last.length + 1 + word.length <= 116)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  const [first = ""] = lines;
  if (lines.length === 1) return `${indent}/** ${first} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}
