import { execFile } from "node:child_process";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseAllDocuments } from "yaml";
import { definitions } from "../../../crds/definition.ts";
import type { JsonSchema } from "../../../crds/schema.ts";
import { crdFiles } from "../../../scripts/crds/files.ts";

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

test("definitions: names, short names and category of design.md, section 1", () => {
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

test("crds/*.yaml: say what the schemas say", async () => {
  for (const file of await crdFiles(join(root, "crds"))) {
    assert.not.ok(file.stale, `crds/${file.name} is stale: run npm run crds`);
  }
});

test("crdFiles: YAML that reads back as the definition, without anchors", async () => {
  for (const [index, file] of (await crdFiles(root)).entries()) {
    const [document, more] = parseAllDocuments(file.text);
    assert.is(more, undefined);
    assert.not.match(file.text, /[&*]a\d/);
    assert.equal(document?.toJS(), JSON.parse(JSON.stringify(definitions[index])));
  }
});

test("crdFiles: a changed and a missing file are stale", async () => {
  const folder = await mkdtemp(join(tmpdir(), "crds-"));
  try {
    const [first, second, third, fourth] = await crdFiles(folder);
    await copyFile(join(root, "crds", first?.name ?? ""), join(folder, first?.name ?? ""));
    await writeFile(join(folder, second?.name ?? ""), second?.text ?? "");
    await writeFile(join(folder, third?.name ?? ""), `${third?.text}\n`);
    assert.ok(fourth?.stale);
    assert.equal(
      (await crdFiles(folder)).map(({ stale }) => stale),
      [false, false, true, true],
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("scripts/crds.ts --check: exits with 0 and writes nothing when all are fresh", async () => {
  const { stdout } = await promisify(execFile)("node", ["--import", "tsx", "scripts/crds.ts", "--check"], {
    cwd: root,
  });
  assert.is(stdout.match(/is up to date/g)?.length, 4);
});

test.run();
