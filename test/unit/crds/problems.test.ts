// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { pattern } from "../../../crds/schema/patterns.ts";
import { patternHints } from "../../../crds/schema/schema-problems.ts";
import { poolProblems } from "../../../crds/schema/validate-pool.ts";
import { triggerProblems } from "../../../crds/schema/validate-trigger.ts";
import { workloadProblems } from "../../../crds/schema/validate-workload.ts";
import { badSpecs, goodSpecs } from "./specs.ts";

const problemsOf = { workload: workloadProblems, pool: poolProblems, trigger: triggerProblems };

for (const { title, kind, spec } of goodSpecs) {
  test(`${kind}Problems: finds nothing in ${title}`, () => {
    assert.equal(problemsOf[kind](spec), []);
  });
}

for (const { title, kind, spec, field } of badSpecs) {
  test(`${kind}Problems: names ${field} for ${title}`, () => {
    const problems = problemsOf[kind](spec);
    assert.is(problems.length, 1, problems.join("\n"));
    assert.ok(problems[0]?.startsWith(field), problems[0]);
    assert.match(problems[0] ?? "", /^[^\s]+: \S/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a message must not carry what the value carried
    assert.not.match(problems[0] ?? "", /[\x00-\x1f]/);
  });
}

test("workloadProblems: says what to change", () => {
  const said = (spec: unknown) => workloadProblems(spec).join("\n");
  assert.is(said({ image: {} }), "spec.image: give exactly one of ref and dockerfile");
  assert.is(said({ image: { ref: "a" }, resources: { vcpus: 0 } }), "spec.resources.vcpus: must be at least 1, not 0");
  assert.is(
    said({ image: { ref: "a" }, network: { access: "open" } }),
    "spec.network.access: must be one of none, restricted, unrestricted",
  );
  assert.is(said({ image: { ref: "a" }, idle: null }), "spec.idle: must be an object, not null: leave it out instead");
  assert.is(
    said({ image: { ref: "a" }, health: { interval: 1 } }),
    "spec.health.interval: unknown field; known are readyWhen, intervalSeconds, unhealthyThreshold, httpGet, tcpSocket, exec",
  );
});

test("workloadProblems: tells of every problem at once", () => {
  const problems = workloadProblems({ image: { ref: 1 }, resources: { vcpus: 0, diskGb: -1 }, network: [] });
  assert.is(problems.length, 4, problems.join("\n"));
});

test("workloadProblems, poolProblems, triggerProblems: take any value", () => {
  for (const value of [undefined, null, 7, "x", [], [{}], () => 1, Number.NaN]) {
    for (const problems of Object.values(problemsOf)) assert.is(problems(value).length, 1);
  }
  assert.ok(workloadProblems({ image: { ref: "a" }, resources: { vcpus: Number.POSITIVE_INFINITY } }).length === 1);
  assert.ok(workloadProblems(JSON.parse('{"image": {"ref": "a"}, "__proto__": {}, "constructor": 1}')).length === 2);
  const [long = ""] = workloadProblems({ image: { ref: "a" }, ["x".repeat(9000)]: 1 });
  assert.ok(long.length < 1000, "a key of any length makes no long message");
});

test("workloadProblems: passes over unknown fields when told to, as the API server does", () => {
  const spec = { image: { ref: "a" }, later: true };
  assert.is(workloadProblems(spec).length, 1);
  assert.equal(workloadProblems(spec, { allowUnknownFields: true }), []);
});

test("patternHints: every pattern has words for people", () => {
  for (const [name, expression] of Object.entries(pattern)) assert.ok(patternHints[expression], name);
});

test.run();
