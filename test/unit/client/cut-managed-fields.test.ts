// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { cutManagedFields } from "../../../crds/client/managed-fields.ts";
import { anyCharacter } from "../any-character.ts";

function cut(object: unknown): unknown {
  return JSON.parse(cutManagedFields(Buffer.from(JSON.stringify(object))).toString());
}

const tricky = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.constantFrom(
    '"managedFields":[{"manager":',
    "[",
    "]",
    '"',
    "\\",
    '\\"',
    "{",
    "managedFields",
    '"managedFields":[{"apiVersion":"v1"}],',
  ),
);
// Not `tricky`: Deno 2.9's own JSON.parse now and then reads the key "\"" as "\\".
const name = fc.stringMatching(/^[a-z:{}[\]]{0,8}$/);
const fieldsV1 = fc.dictionary(name, fc.oneof(tricky, fc.array(tricky), fc.dictionary(name, tricky)));
/** As Go's types order the fields of an entry, and as the alphabet does. */
const entry = fc.oneof(
  fc.record({ manager: tricky, operation: fc.constant("Update"), fieldsV1 }),
  fc.record({ apiVersion: tricky, fieldsV1, manager: tricky }),
);
const metadata = fc.record({
  before: fc.dictionary(name, tricky),
  entries: fc.array(entry, { minLength: 1 }),
  after: fc.dictionary(name, tricky),
});
const object = fc.record({ metadata, spec: tricky }).map(({ metadata: { before, entries, after }, spec }) => ({
  whole: { metadata: { ...before, managedFields: entries, ...after }, spec },
  cut: { metadata: { ...before, ...after }, spec },
}));

test("cutManagedFields leaves what parsing and dropping would, wherever they stand and whatever is in them", () => {
  const property = fc.property(fc.array(object), (objects) => {
    const items = objects.map(({ whole }) => whole);
    const expected = objects.map((each) => each.cut);
    assert.equal(JSON.stringify(cut({ items })), JSON.stringify({ items: expected }));
    for (const [index, item] of items.entries())
      assert.equal(JSON.stringify(cut(item)), JSON.stringify(expected[index]));
  });
  fc.assert(property, { numRuns: 100 });
});

test("cutManagedFields leaves everything alone that only looks like them", () => {
  const alike = [
    { metadata: { annotations: { last: '{"metadata":{"managedFields":[{"manager":"x"}]}}' } } },
    { spec: { managedFields: [] } },
    { spec: { managedFields: [{ name: "x" }] } },
    { spec: { managedFields: { manager: "x" } } },
    "managedFields",
  ];
  for (const each of alike) assert.equal(cut(each), each);
});

test("cutManagedFields leaves broken JSON as broken as it is", () => {
  for (const text of ["", '{"managedFields":[{"manager":"x', '{"managedFields":[{"manager":"x\\', "no JSON"])
    assert.is(cutManagedFields(Buffer.from(text)).toString(), text);
});

test("cutManagedFields touches nothing beside the part of a buffer that it is given", () => {
  const line = '{"metadata":{"managedFields":[{"manager":"x"}],"name":"y"}}';
  const chunk = Buffer.from(`before\n${line}\nafter`);
  assert.is(cutManagedFields(chunk.subarray(7, 7 + line.length)).toString(), '{"metadata":{"name":"y"}}');
  assert.is(chunk.subarray(0, 7).toString(), "before\n");
  assert.is(chunk.subarray(7 + line.length).toString(), "\nafter");
});

test.run();
