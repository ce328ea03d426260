// @runtimes node bun deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { cutManagedFields } from "../../../crds/client/cut-managed-fields.ts";

function cut(object: unknown): unknown {
  return JSON.parse(cutManagedFields(Buffer.from(JSON.stringify(object))).toString());
}

const tricky = fc.oneof(
  fc.string({ unit: "binary" }),
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
const fieldsV1 = fc.dictionary(tricky, fc.oneof(tricky, fc.array(tricky), fc.dictionary(tricky, tricky)));
/** As Go's types order the fields of an entry, and as the alphabet does. */
const entry = fc.oneof(
  fc.record({ manager: tricky, operation: fc.constant("Update"), fieldsV1 }, { noNullPrototype: true }),
  fc.record({ apiVersion: tricky, fieldsV1, manager: tricky }, { noNullPrototype: true }),
);
const object = fc
  .record({
    before: fc.dictionary(tricky, tricky),
    entries: fc.array(entry, { minLength: 1 }),
    after: fc.dictionary(tricky, tricky),
    rest: fc.anything(),
  })
  .map(({ before, entries, after, rest }) => {
    const bare = { ...before, ...after };
    delete bare.managedFields;
    const { managedFields: _, ...first } = before as Record<string, unknown>;
    const { managedFields: __, ...last } = after as Record<string, unknown>;
    const spec = JSON.parse(JSON.stringify({ rest: String(rest) })) as object;
    return {
      with: { metadata: { ...first, managedFields: entries, ...last }, spec },
      without: { metadata: { ...first, ...last }, spec },
    };
  });

test("cutManagedFields leaves what parsing and dropping would, wherever they stand and whatever is in them", () => {
  const property = fc.property(fc.array(object), (objects) => {
    const items = objects.map((each) => each.with);
    const expected = objects.map((each) => each.without);
    assert.equal(JSON.stringify(cut({ items })), JSON.stringify({ items: expected }));
    for (const [index, item] of items.entries())
      assert.equal(JSON.stringify(cut(item)), JSON.stringify(expected[index]));
  });
  fc.assert(property, { numRuns: 500 });
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
