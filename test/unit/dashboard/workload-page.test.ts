import { suite } from "uvu";
import * as assert from "uvu/assert";
import { workloadProblems } from "../../../crds/schema/validate-workload.ts";
import { schemas } from "../../../edge/api/openapi/schemas.ts";
import {
  type FieldSchema,
  fieldText,
  fieldValue,
  problemsByField,
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
    ["service", true],
    ["network.credentials", [{ domain: "a.example", headers: [] }]],
  ] as const) {
    assert.equal(fieldValue(field(path), fieldText(field(path), value)), value, path);
  }
  assert.is(fieldValue(field("image.ref"), " "), undefined);
  assert.is(fieldText(field("image.ref"), undefined), "");
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
  assert.match(found.get("") ?? "", "body.spec.nothing: is not a field");
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
    [`spec.image.ref: "a" → "b"`, `spec.network: {"ports":[80]}, taken out`, `spec.idle: {"timeoutSeconds":5}`],
  );
  assert.equal(specChanges({ a: [1] }, { a: [1] }), []);
});

test("networkWords says what is reached, and what the container never sees", () => {
  assert.equal(networkWords(), [
    "It reaches nothing, DNS neither.",
    "It names no port that it listens on.",
    "No instance reaches another one, of the same tenant neither.",
  ]);
  const secret = { valueFrom: { secretKeyRef: { name: "s", key: "k" } } };
  assert.equal(
    networkWords({
      access: "restricted",
      allowlist: ["api.example.com", "*.example.org"],
      credentials: [{ domain: "api.example.com", headers: [{ name: "authorization", ...secret }] }],
      ports: [8080, 9090],
    }).slice(0, 3),
    [
      "It reaches DNS and, over HTTPS, api.example.com, every name below example.org; nothing else.",
      "Requests to api.example.com get authorization, whose value the container never sees.",
      "It listens on port 8080, also on 9090.",
    ],
  );
  assert.match(networkWords({ access: "restricted" })[0] ?? "", "any host over HTTPS");
  assert.match(networkWords({ access: "unrestricted" })[0] ?? "", "link-local");
});

test.run();
