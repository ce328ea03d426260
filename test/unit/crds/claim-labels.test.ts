import { test } from "uvu";
import * as assert from "uvu/assert";
import { differingLabels, labelProblems, podLabelsOf } from "../../../crds/claims/claim-labels.ts";

const key = { tenantId: "t", workloadRef: "w" };
const most = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`k${index}`, ""]));

const cases: [title: string, labels: unknown, problem?: RegExp][] = [
  ["none", {}],
  ["a label", { team: "red" }],
  ["an empty value", { team: "" }],
  ["names that objects inherit", { constructor: "a", toString: "b" }],
  ["every legal character, at full length", { [`A.b_c-${"d".repeat(57)}`]: `9${"._-".repeat(20)}.9` }],
  ["sixteen", most],
  ["seventeen", { ...most, one: "" }, /at most 16 entries, not 17/],
  ["a prefix", { "example.com/team": "red" }, /"example.com\/team" must be the name of a label/],
  ["our own prefix", { "tenancy.dev/tenant": "b" }, /"tenancy.dev\/tenant" must be the name of a label/],
  ["no name", { "": "red" }, /"" must be the name of a label/],
  ["a name that is too long", { ["x".repeat(64)]: "red" }, /must be the name of a label/],
  ["a name that ends in a dash", { "team-": "red" }, /must be the name of a label/],
  ["a value that is too long", { team: "x".repeat(64) }, /labels\.team: must have at most 63 characters/],
  ["a value with a space", { team: "a secret" }, /labels\.team: must be the value of a label/],
  ["a number", { team: 1 }, /labels\.team: must be text/],
  ["a list", ["team"], /labels: must be an object/],
  ["nothing", null, /labels: must be an object/],
];
for (const [title, labels, problem] of cases) {
  test(`labelProblems: ${title}`, () => {
    const problems = labelProblems(labels, "labels");
    assert.is(problems.length, problem === undefined ? 0 : 1, problems.join());
    if (problem !== undefined) assert.match(problems[0] ?? "", problem);
    assert.not.match(problems.join(), "secret");
  });
}

test("podLabelsOf: prefixes the keys, and leaves out what a server would refuse", () => {
  assert.equal(podLabelsOf(key), {});
  assert.equal(podLabelsOf({ ...key, labels: { team: "red" } }), { "claim.tenancy.dev/team": "red" });
  assert.equal(podLabelsOf({ ...key, labels: { team: "red", "a/b": "c" } }), {});
});

test("differingLabels: names the keys that only one has, or that differ", () => {
  assert.equal(differingLabels({ a: "1", b: "2", c: "3" }, { a: "1", b: "3", d: "4" }), ["b", "c", "d"]);
  assert.equal(differingLabels(undefined, {}), []);
  assert.equal(differingLabels({}, { constructor: "a" }), ["constructor"]);
});

test.run();
