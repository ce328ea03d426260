import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { staleFiles } from "../../../scripts/chart/files.ts";
import { mark, nodeOf, nodesAt } from "../../../scripts/chart/tree.ts";
import { writeTemplate } from "../../../scripts/chart/write-template.ts";

const test = suite("manifests/chart");
const root = join(import.meta.dirname, "../../..");

test("is made from the manifests as they are: else run npm run chart", () => {
  assert.equal(staleFiles(root), []);
});

test("staleFiles: names a manifest and a template that somebody has changed, and a component that is new", () => {
  const copy = mkdtempSync(join(tmpdir(), "tenancy-chart-"));
  try {
    for (const folder of ["crds", "manifests", "scripts/chart"])
      cpSync(join(root, folder), join(copy, folder), { recursive: true });
    const changed = ["manifests/base/edge.yaml", "manifests/chart/templates/base.yaml"];
    for (const path of changed) writeFileSync(join(copy, path), `${readFileSync(join(copy, path), "utf8")}# more\n`);
    const added = "manifests/components/quota/more.yaml";
    writeFileSync(join(copy, added), "");
    assert.equal(staleFiles(copy).sort(), [...changed, added].sort());
  } finally {
    rmSync(copy, { recursive: true });
  }
});

/** The template of an object that a part changes. */
function templateOf(before: object, after: object): string {
  const node = nodeOf(before);
  mark(node, { before, after, when: ".Values.on" });
  return writeTemplate({ when: undefined, node });
}

test("mark: what a part adds, replaces and takes away is under its condition", () => {
  const before = {
    env: [
      { name: "A", value: "1" },
      { name: "B", value: "2" },
    ],
    account: "one",
    gone: true,
  };
  const after = {
    env: [
      { name: "C", value: "3" },
      { name: "A", value: "1" },
      { name: "B", value: "4" },
    ],
    account: "two",
  };
  assert.is(
    templateOf(before, after),
    `---
env:
{{- if .Values.on }}
- name: C
  value: "3"
{{- end }}
- name: A
  value: "1"
- name: B
{{- if not (.Values.on) }}
  value: "2"
{{- end }}
{{- if .Values.on }}
  value: "4"
{{- end }}
{{- if not (.Values.on) }}
account: one
{{- end }}
{{- if .Values.on }}
account: two
{{- end }}
{{- if not (.Values.on) }}
gone: true
{{- end }}`,
  );
});

test("mark: a second part that adds to the same list leaves the first one's items where they are", () => {
  const [none, first, both] = [[1], [1, 2], [1, 2, 3]].map((rules) => ({ rules }));
  const node = nodeOf(none);
  mark(node, { before: none, after: first, when: ".Values.first" });
  mark(node, { before: first, after: both, when: ".Values.second" });
  assert.match(
    writeTemplate({ when: undefined, node }),
    "- 1\n{{- if .Values.first }}\n- 2\n{{- end }}\n{{- if .Values.second }}\n- 3\n{{- end }}",
  );
});

test("writeTemplate: texts with Go's braces, of several lines and that YAML 1.1 takes for other things come through", () => {
  const object = {
    on: "off",
    braces: "{{ $labels.pod }}",
    lines: { inner: ["one\ntwo\n", { empty: {}, none: [] }, {}] },
    number: "1_000",
  };
  const text = writeTemplate({ when: undefined, node: nodeOf(object) });
  assert.not.match(text, "{{ $");
  assert.equal(parse(text.replaceAll('{{ "{{" }}', "{{"), { version: "1.1" }), object);
});

test("nodesAt: an item of a list by its name or its place", () => {
  const node = nodeOf({ containers: [{ name: "edge", image: "one" }] });
  const [byName, byPlace] = ["edge", "0"].map((item) => nodesAt(node, ["containers", item, "image"]));
  assert.equal(byName, [{ type: "plain", value: "one" }]);
  assert.equal(byPlace, byName);
  assert.equal(nodesAt(node, ["containers", "other", "image"]), []);
});

test.run();
