import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { TSchema } from "@sinclair/typebox";
import { stringify } from "yaml";
import { type ChartObject, chartObjects } from "./objects.ts";
import type { Plain } from "./tree.ts";
import { valuesSchema } from "./values.ts";
import { writeTemplate, YAML_1_1 } from "./write-template.ts";

const CHART = "manifests/chart";
const MADE = "Made from the manifests by `npm run chart`: change those, not this file.";
const DIGESTS = `${CHART}/made-from.sha256`;
/** The paths that the chart is generated from: files, and folders with all files below them. */
const SOURCES = [
  "crds",
  "manifests/base",
  "manifests/builds",
  "manifests/keys",
  "manifests/components",
  "scripts/chart",
];

/** The generated files of the chart, by their path below the root. */
export async function chartFiles(root: string): Promise<Map<string, string>> {
  const { objects, defaults } = await chartObjects(root);
  const schema = withDefaults(valuesSchema, defaults, "");
  const files = new Map<string, string>();
  const put = (path: string, text: string) => files.set(`${CHART}/${path}`, text);
  for (const from of new Set(objects.map(fileOf)))
    put(`templates/${from}.yaml`, template(objects.filter((object) => fileOf(object) === from)));
  put("values.yaml", `# ${MADE}\n${valuesText(schema, "")}`);
  put("values.schema.json", `${JSON.stringify(schema, null, 2)}\n`);
  put("README.md", page(schema));
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  put("Chart.yaml", `# ${MADE}\n${stringify(description(version))}`);
  files.set(DIGESTS, digests(root, files));
  return files;
}

/** The SHA-256 of all sources and all generated files, as `sha256sum` prints them. */
export function staleFiles(root: string): string[] {
  const kept = readFileSync(join(root, DIGESTS), "utf8").split("\n").filter(Boolean);
  const made = kept.map((line) => line.slice(66)).filter((path) => path.startsWith(`${CHART}/`));
  const now = digests(root, new Map(made.map((path) => [path, read(root, path)])))
    .split("\n")
    .filter(Boolean);
  const changed = [...kept.filter((line) => !now.includes(line)), ...now.filter((line) => !kept.includes(line))];
  return [...new Set(changed.map((line) => line.slice(66)))];
}

function digests(root: string, made: ReadonlyMap<string, string>): string {
  const sources = SOURCES.flatMap((source) =>
    readdirSync(join(root, source), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && isSource(entry.name, source))
      .map(({ parentPath, name }) => relative(root, join(parentPath, name))),
  );
  const texts = [...sources.map((path) => [path, read(root, path)] as const), ...made];
  return texts
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([path, text]) => `${createHash("sha256").update(text).digest("hex")}  ${path}\n`)
    .join("");
}

function isSource(name: string, source: string): boolean {
  return source !== "crds" || name === "Kustomization" || name.endsWith(".yaml");
}

function read(root: string, path: string): string {
  try {
    return readFileSync(join(root, path), "utf8");
  } catch {
    return "";
  }
}

function fileOf({ kind, from }: ChartObject): string {
  return kind === "CustomResourceDefinition" ? "kinds" : from;
}

function template(objects: ChartObject[]): string {
  return `{{- /* ${MADE} */}}\n${objects.map(objectText).join("\n")}\n`;
}

/** A namespace may exist already: the helper decides whether it is created. */
function objectText(object: ChartObject): string {
  if (object.template !== undefined)
    return `{{- define "${object.template}" }}\n${writeTemplate(object)}\n{{- end }}\n{{- include "${object.template}" . }}`;
  if (object.kind !== "Namespace") return writeTemplate(object);
  const name = `tenancy.namespace.${object.name}`;
  const text = writeTemplate({ ...object, when: undefined });
  const call = `{{- include "tenancy.namespace" (list . (include "${name}" .)) }}`;
  const called = object.when === undefined ? call : `{{- if ${object.when} }}\n${call}\n{{- end }}`;
  return `{{- define "${name}" }}\n${text}\n{{- end }}\n${called}`;
}

type Schema = TSchema & { properties?: Record<string, Schema> };

function withDefaults(schema: Schema, defaults: ReadonlyMap<string, unknown>, path: string): Schema {
  const { properties } = schema;
  if (properties !== undefined && !("default" in schema) && !defaults.has(path)) {
    const inner = Object.entries(properties).map(([key, one]) => [key, withDefaults(one, defaults, dotted(path, key))]);
    return { ...schema, properties: Object.fromEntries(inner) };
  }
  const fallback = schema.default ?? defaults.get(path);
  if (fallback === undefined) throw new Error(`Cannot tell the default of the value ${path}: it has no place`);
  return { ...schema, default: fallback };
}

function dotted(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function valuesText(schema: Schema, indent: string): string {
  return Object.entries(schema.properties ?? {})
    .map(([key, one]) => {
      if (one.default === undefined) return `${indent}${key}:\n${valuesText(one, `${indent}  `)}`;
      const lines = stringify({ [key]: one.default }, YAML_1_1)
        .trimEnd()
        .split("\n");
      return `${indent}# ${one.description}\n${lines.map((line) => `${indent}${line}\n`).join("")}`;
    })
    .join("");
}

function page(schema: Schema): string {
  return `<!-- ${MADE} -->

# The chart's values

How it is installed and upgraded: [docs/how-to/install.md](../../docs/how-to/install.md).

| value | default | |
| --- | --- | --- |
${rows(schema, "").join("\n")}
`;
}

function rows(schema: Schema, path: string): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, one]) => {
    const name = dotted(path, key);
    if (one.default === undefined) return rows(one, name);
    const shown = one.default === "" ? "" : `\`${isText(one.default) ? one.default : JSON.stringify(one.default)}\``;
    return [`| \`${name}\` | ${shown} | ${one.description} |`];
  });
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function description(version: string): Plain {
  return {
    apiVersion: "v2",
    name: "tenancy",
    description: "Isolated, on-demand containers for the tenants of a platform",
    type: "application",
    version,
    appVersion: version,
    kubeVersion: ">=1.21.0-0",
  };
}
