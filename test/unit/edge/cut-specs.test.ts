// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { cutSpecs } from "../../../edge/cluster/slim-pod.ts";
import { anyCharacter } from "../any-character.ts";

const tricky = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.constantFrom(',"spec":{', '},"status":{', '"', "\\", '\\"', "}", '"},"status":{"phase":"Failed"},'),
);
const pod = fc.record({
  metadata: fc.record({ name: tricky, annotations: fc.record({ spec: tricky, status: tricky }) }),
  spec: fc.record({ containers: fc.array(fc.record({ args: fc.array(tricky) })), hostname: tricky }),
  status: fc.record({ phase: tricky, conditions: fc.array(fc.record({ type: tricky, status: tricky })) }),
});

function cut(value: unknown): unknown {
  return JSON.parse(cutSpecs(Buffer.from(JSON.stringify(value))).toString());
}

test("cutSpecs leaves what parsing and dropping would, whatever is in the pods' texts", () => {
  const property = fc.property(fc.array(pod), (pods) => {
    const without = pods.map(({ metadata, status }) => ({ metadata, status }));
    assert.is(JSON.stringify(cut({ items: pods })), JSON.stringify({ items: without }));
    for (const [index, object] of pods.entries())
      assert.is(JSON.stringify(cut({ object })), JSON.stringify({ object: without[index] }));
  });
  fc.assert(property, { numRuns: 200 });
});

test("cutSpecs leaves alone a pod without a status, or with another spec in its own, and loses none beside it", () => {
  const plain = { metadata: { name: "plain" }, spec: { containers: [] }, status: { phase: "Running" } };
  const short = { metadata: { name: "plain" }, status: { phase: "Running" } };
  const template = { metadata: {}, spec: { resources: {} } };
  const claims = { metadata: {}, spec: { volumes: [{ ephemeral: { template } }] }, status: { phase: "Running" } };
  const early = { metadata: {}, spec: { containers: [] } };
  assert.equal(cut([plain, claims, plain]), [short, claims, short]);
  // Where the one ends is known by the next one's status alone.
  assert.equal(cut([plain, early, plain, plain]), [short, early, plain, short]);
  assert.equal(cut([plain, early]), [short, early]);
});

test("cutSpecs gives no pod the status of another, in whichever order their keys come", () => {
  const orders = ["metadata spec status", "metadata status spec", "status metadata spec", "spec metadata status"];
  for (const order of orders) {
    const podOf = (name: string): object => {
      const parts: Record<string, object> = { metadata: { name }, spec: { hostname: name }, status: { phase: name } };
      return Object.fromEntries(order.split(" ").map((key) => [key, parts[key]]));
    };
    const shown = cut(["a", "b", "c"].map(podOf)) as { metadata: { name: string }; status: { phase: string } }[];
    assert.equal(
      shown.map(({ metadata, status }) => `${metadata.name} ${status.phase}`),
      ["a a", "b b", "c c"],
      order,
    );
  }
  assert.equal(
    cut([
      { metadata: {}, spec: {} },
      { metadata: {}, status: {} },
    ]),
    [
      { metadata: {}, spec: {} },
      { metadata: {}, status: {} },
    ],
  );
});

test("cutSpecs leaves broken JSON as broken as it is", () => {
  for (const text of ["", '{"metadata":{},"spec":{"a":', "no JSON", '{"message":"no pod"}'])
    assert.is(cutSpecs(Buffer.from(text)).toString(), text);
});

test("cutSpecs touches nothing beside the part of a buffer that it is given", () => {
  const line = '{"metadata":{},"spec":{"a":1},"status":{}}';
  const chunk = Buffer.from(`before\n${line}\nafter`);
  assert.is(cutSpecs(chunk.subarray(7, 7 + line.length)).toString(), '{"metadata":{},"status":{}}');
  assert.is(chunk.subarray(0, 7).toString(), "before\n");
  assert.is(chunk.subarray(7 + line.length).toString(), "\nafter");
});

test.run();
