import { suite } from "uvu";
import * as assert from "uvu/assert";
import { workloadProblems } from "../../../crds/schema/validate-workload.ts";
import { schemas } from "../../../edge/api/openapi/schemas.ts";
import {
  editableField,
  type FieldSchema,
  fieldText,
  fieldValue,
  problemsByField,
  rebased,
  type SpecField,
  specChanges,
  specFields,
  valueAt,
  withValue,
} from "../../../edge/dashboard/spec/spec-fields.ts";
import { networkWords } from "../../../edge/dashboard/workloads/network-words.ts";

const test = suite("dashboard/workload page");

const fields = specFields(schemas.WorkloadSpec as FieldSchema);
const field = (path: string) => {
  const found = fields.find((one) => one.path === path);
  assert.ok(found, `no field ${path}`);
  return found;
};

test("the form has a field for each part of the spec, of its kind", () => {
  for (const [path, kind] of [
    ["version", "text"],
    ["image.ref", "text"],
    ["image.args", "pairs"],
    ["resources.memoryMb", "number"],
    ["network.access", "choice"],
    ["network.allowlist", "lines"],
    ["network.ports", "lines"],
    ["network.credentials", "json"],
    ["filesystem.preSave.command", "lines"],
    ["entrypoint.env", "pairs"],
    ["service", "flag"],
    ["runtimeClassName", "text"],
    ["resources.extended", "pairs"],
    ["scheduling.nodeSelector", "pairs"],
    ["scheduling.tolerations", "json"],
  ] as const) {
    assert.is(field(path).kind, kind, path);
    assert.is.not(field(path).help, "", path);
  }
  const tops = new Set(fields.map(({ path }) => path.split(".")[0]));
  assert.equal([...tops].sort(), Object.keys(schemas.WorkloadSpec.properties ?? {}).sort());
});

test("fieldText and fieldValue are each other's reverse", () => {
  for (const [path, value] of [
    ["image.ref", "example.com/app:1"],
    ["resources.memoryMb", 512],
    ["network.ports", [80, 443]],
    ["network.allowlist", ["a.example", "*.b.example"]],
    ["entrypoint.env", { A: "1", B: "x=y" }],
    ["resources.extended", { "nvidia.com/gpu": 1 }],
    ["service", true],
    ["network.credentials", [{ domain: "a.example", headers: [] }]],
  ] as const) {
    assert.equal(fieldValue(field(path), fieldText(field(path), value)), value, path);
  }
  assert.is(fieldValue(field("image.ref"), " "), undefined);
  assert.is(fieldText(field("image.ref"), undefined), "");
});

/** What stands in a control of the browser after a text was put there. */
function inControl({ kind }: SpecField, text: string): string {
  if (kind === "lines" || kind === "pairs" || kind === "json") return text.replaceAll(/\r\n?/g, "\n");
  return text.replaceAll(/[\r\n]/g, "");
}

test("no value that the schema admits is changed by its control", () => {
  const texts = [
    "",
    " ",
    "a",
    "a=b",
    "=",
    "set -e\nserve\n",
    "-----BEGIN\r\nabc",
    "\t",
    "\r",
    "1",
    "[]",
    '"q"',
    "null",
  ];
  const [lists, maps] = [texts.map((text) => ["-c", text, "x"]), texts.map((text) => ({ A: text, CERT: "b" }))];
  const values: Record<SpecField["kind"], readonly unknown[]> = {
    text: texts,
    number: [0, -1, 512, 1.5],
    flag: [true, false],
    choice: [],
    lines: [[], texts, ...lists],
    pairs: [{}, ...maps, { "a=b": "c" }, { "": "x" }, { "a\nb": "c" }],
    json: [[], {}, lists, { a: maps }, [{ domain: "a.example", headers: [] }]],
  };
  const numbers = [[], [80], [80, 443]];
  let count = 0;
  for (const schema of [schemas.WorkloadSpec, schemas.PoolSpec, schemas.TriggerSpec] as FieldSchema[]) {
    for (const one of specFields(schema)) {
      const isNumbers = one.schema.items?.type === "integer";
      for (const value of isNumbers ? numbers : [...values[one.kind], ...(one.schema.enum ?? [])]) {
        const shown = editableField(one, value);
        assert.equal(fieldValue(shown, inControl(shown, fieldText(shown, value))), value, `${one.path}: ${shown.kind}`);
        count += 1;
      }
    }
  }
  assert.ok(count > 200, `${count}`);
  const args = field("entrypoint.args");
  assert.is(editableField(args, ["-c", "serve"]).kind, "lines");
  assert.is(editableField(args, undefined).kind, "lines");
  assert.is(editableField(args, ["-c", "set -e\nserve"]).kind, "json");
});

test("fieldValue leaves what is no value to the API", () => {
  assert.is(fieldValue(field("resources.vcpus"), "two"), "two");
  assert.is(fieldValue(field("network.credentials"), "[{"), "[{");
});

test("withValue takes emptied objects out, and changes nothing else", () => {
  const spec = { image: { ref: "a" }, network: { access: "none" } };
  assert.equal(withValue(spec, "network.access", undefined), { image: { ref: "a" } });
  assert.equal(withValue(spec, "resources.vcpus", 2), { ...spec, resources: { vcpus: 2 } });
  assert.equal(withValue({}, "a.b.c", undefined), {});
  assert.is(valueAt(spec, "network.access"), "none");
  assert.is(valueAt(spec, "image.ref.deeper"), undefined);
});

test("what the API says of a spec stands at its fields", () => {
  const problems = workloadProblems({
    image: {},
    resources: { vcpus: "two" },
    network: { access: "restricted", allowlist: ["ok.example", "not ok"] },
    nothing: 1,
  });
  const message = problems.map((problem) => `body.${problem}`).join("; ");
  const found = problemsByField(message, fields);
  assert.match(found.get("resources.vcpus") ?? "", "must be a whole number");
  assert.match(found.get("network.allowlist") ?? "", "spec.network.allowlist[1]");
  assert.match(found.get("") ?? "", "body.spec.nothing: unknown field");
  assert.is([...found.values()].join("; ").length, message.length);
  assert.equal([...problemsByField("body.name: is required", fields)], [["name", "body.name: is required"]]);
  assert.equal([...problemsByField("the cluster refuses it", fields)], [["", "the cluster refuses it"]]);
});

test("specChanges names each place with what was and what is", () => {
  assert.equal(
    specChanges(
      { image: { ref: "a" }, resources: { vcpus: 1 }, network: { ports: [80] } },
      { image: { ref: "b" }, resources: { vcpus: 1 }, idle: { timeoutSeconds: 5 } },
    ),
    [`spec.image.ref: "a" → "b"`, `spec.network: {"ports":[80]}, removed`, `spec.idle: {"timeoutSeconds":5}`],
  );
  assert.equal(specChanges({ a: [1] }, { a: [1] }), []);
});

test("rebased makes changes again over those of another, who wins where both changed a place", () => {
  const before = { image: { ref: "a" }, resources: { vcpus: 1 }, network: { ports: [80] }, service: true };
  const mine = { image: { ref: "mine" }, resources: { vcpus: 2 }, network: { ports: [80] } };
  const theirs = { image: { ref: "theirs" }, resources: { vcpus: 1, memoryMb: 64 }, service: true };
  assert.equal(rebased({ before, mine, theirs }), {
    value: { image: { ref: "theirs" }, resources: { vcpus: 2, memoryMb: 64 } },
    clashes: ['spec.image.ref: "mine"'],
  });
  assert.is(rebased({ before, mine: { ...before }, theirs }).value, theirs, "nothing was typed");
  assert.is(rebased({ before, mine, theirs: { ...before } }).value, mine, "nobody else changed it");
  const { resources: _, ...without } = before;
  assert.equal(rebased({ before, mine: without, theirs }).clashes, ["spec.resources: removed"]);
});

test("networkWords says what is reached, and what the container never sees", () => {
  assert.equal(networkWords(), [
    "No outbound network, including DNS.",
    "It declares no listening port.",
    "The front door does not serve it.",
    "Instances cannot reach each other, even of the same tenant.",
  ]);
  const secret = { valueFrom: { secretKeyRef: { name: "s", key: "k" } } };
  assert.equal(
    networkWords({
      access: "restricted",
      allowlist: ["api.example.com", "*.example.org"],
      credentials: [{ domain: "api.example.com", headers: [{ name: "authorization", ...secret }] }],
      ports: [8080, 9090],
    }).slice(0, 4),
    [
      "It can reach DNS and, over HTTPS, api.example.com, every name under example.org; nothing else.",
      "Requests to api.example.com get authorization; the container never sees the value.",
      "It listens on port 8080, also on 9090.",
      "The front door does not serve it.",
    ],
  );
  assert.match(networkWords({ expose: "key" })[2] ?? "", "callers with the API key");
  assert.match(networkWords({ expose: "link" })[2] ?? "", "a signed link");
  assert.match(networkWords({ expose: "public" })[2] ?? "", "to everyone");
  assert.match(networkWords({ access: "restricted" })[0] ?? "", "any host over HTTPS");
  assert.match(networkWords({ access: "unrestricted" })[0] ?? "", "link-local");
});

test.run();
