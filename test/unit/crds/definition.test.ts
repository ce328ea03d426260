import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseAllDocuments } from "yaml";
import { definitions } from "../../../crds/definitions/definition.ts";
import type { JsonSchema } from "../../../crds/schema/schema.ts";
import { generatedFiles } from "../../../scripts/crds/files.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

// What a structural schema of apiextensions.k8s.io/v1 may say, as far as ours do; anything else is refused or ignored.
const ALLOWED = new Set(
  [
    "type description default enum format pattern minLength maxLength minimum maximum minItems maxItems maxProperties",
    "required properties additionalProperties items oneOf x-kubernetes-preserve-unknown-fields x-kubernetes-list-type",
    "x-kubernetes-list-map-keys x-kubernetes-validations",
  ]
    .join(" ")
    .split(" "),
);

function walk(schema: JsonSchema, path: string, visit: (schema: JsonSchema, path: string) => void): void {
  visit(schema, path);
  for (const [name, child] of Object.entries(schema.properties ?? {})) walk(child, `${path}.${name}`, visit);
  if (schema.items !== undefined) walk(schema.items, `${path}[]`, visit);
  if (schema.additionalProperties !== undefined) walk(schema.additionalProperties, `${path}{}`, visit);
}

const schemas = definitions.map(({ spec }) => ({
  kind: spec.names.kind,
  schema: spec.versions[0]?.schema.openAPIV3Schema ?? {},
}));

test("definitions: every word of every schema is allowed in a structural schema", () => {
  for (const { kind, schema } of schemas) {
    walk(schema, kind, (node, path) => {
      for (const word of Object.keys(node)) assert.ok(ALLOWED.has(word), `${path}: ${word}`);
      assert.ok(node.type !== undefined, `${path}: no type`);
      assert.not.ok(node.properties && node.additionalProperties, `${path}: both properties and additionalProperties`);
      for (const branch of node.oneOf ?? []) assert.equal(Object.keys(branch), ["required"], path);
      if (node["x-kubernetes-list-map-keys"]) {
        const keys = node["x-kubernetes-list-map-keys"];
        for (const key of keys) assert.ok(node.items?.required?.includes(key), `${path}: ${key} is not required`);
      }
    });
  }
});

test("definitions: every field has a description, and lists and text have a bound", () => {
  for (const { kind, schema } of schemas) {
    walk(schema, kind, (node, path) => {
      if (/\.metadata|\{\}|^\w+\.(apiVersion|kind)$/.test(path)) return;
      assert.ok(node.description?.endsWith("."), `${path}: no description`);
      if (node.type === "array") assert.ok(node.maxItems !== undefined, `${path}: no maxItems`);
      if (node.type === "string") assert.ok(node.maxLength ?? node.enum ?? node.format, `${path}: no maxLength`);
    });
  }
});

test("definitions: rules say only what the first servers with rules understand", () => {
  for (const { kind, schema } of schemas) {
    walk(schema, kind, (node, path) => {
      for (const rule of node["x-kubernetes-validations"] ?? [])
        assert.equal(Object.keys(rule), ["rule", "message"], path);
    });
  }
});

test("definitions: the default of an object has all its required fields, which API servers demand", () => {
  for (const { kind, schema } of schemas) {
    walk(schema, kind, (node, path) => {
      if (node.type !== "object" || node.default === undefined) return;
      for (const field of node.required ?? [])
        assert.ok(Object.hasOwn(node.default as object, field), `${path}.${field}`);
    });
  }
});

test("definitions: names, short names and category", () => {
  assert.equal(
    definitions.map(({ metadata, spec: { group, scope, names, versions } }) => [
      metadata.name,
      names.kind,
      names.shortNames.join(),
      names.categories.join(),
      `${group}/${versions[0]?.name}`,
      scope,
    ]),
    [
      ["tenancyworkloads.tenancy.dev", "TenancyWorkload", "tw"],
      ["tenancypools.tenancy.dev", "TenancyPool", "tp"],
      ["tenancyclaims.tenancy.dev", "TenancyClaim", "tc"],
      ["tenancytriggers.tenancy.dev", "TenancyTrigger", "tt"],
    ].map((row) => [...row, "tenancy", "tenancy.dev/v1alpha1", "Namespaced"]),
  );
});

const files = await generatedFiles(root);

test("crds/*.yaml, docs/reference/workload.md: say what the schemas say", () => {
  for (const { path, stale } of files) assert.not.ok(stale, `${path} is stale: run npm run crds`);
});

test("generatedFiles: YAML that reads back as the definition, without anchors", () => {
  for (const [index, definition] of definitions.entries()) {
    const [document, more] = parseAllDocuments(files[index]?.text ?? "");
    assert.is(more, undefined);
    assert.not.match(files[index]?.text ?? "", /[&*]a\d/);
    assert.equal(document?.toJS(), JSON.parse(JSON.stringify(definition)));
  }
});

test("generatedFiles: a changed and a missing file are stale", async () => {
  const folder = await mkdtemp(join(tmpdir(), "crds-"));
  try {
    await mkdir(join(folder, "crds"));
    const [first, second, third] = await generatedFiles(folder);
    await copyFile(join(root, first?.path ?? ""), join(folder, first?.path ?? ""));
    await writeFile(join(folder, second?.path ?? ""), second?.text ?? "");
    await writeFile(join(folder, third?.path ?? ""), `${third?.text}\n`);
    assert.equal(
      (await generatedFiles(folder)).map(({ stale }) => stale),
      [false, false, true, true, true],
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("docs/reference/workload.md: has a row for each field of the kind, with an example", async () => {
  const page = await readFile(join(root, "docs/reference/workload.md"), "utf8");
  const kind = definitions.find(({ spec }) => spec.names.kind === "TenancyWorkload");
  const { spec } = kind?.spec.versions[0]?.schema.openAPIV3Schema.properties ?? {};
  // Kubernetes' own pages have the fields of these.
  const ofKubernetes = /^scheduling\.affinity\.\w+$|^scheduling\..*\.labelSelector$/;
  const paths = (fields: JsonSchema["properties"] = {}, at = ""): string[] =>
    Object.entries(fields).flatMap(([name, field]) => {
      const path = at + name;
      const [inner, joint] = field.items?.properties ? [field.items.properties, "[]."] : [field.properties, "."];
      return inner === undefined || ofKubernetes.test(path) ? [path] : paths(inner, path + joint);
    });
  const rows = [...page.matchAll(/^\| `([^`]+)` \|.*\|.*\| (.*) \| .+ \|$/gm)];
  assert.equal(
    rows.map(([, path]) => path),
    paths(spec?.properties),
  );
  assert.equal(
    rows.filter(([, , example]) => example === "").map(([, path]) => path),
    [],
  );
});

test.run();
