// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { applyFilter, type FilterColumn, readFilter, writeFilter } from "../../../edge/dashboard/table/filter.ts";

const test = suite("dashboard/filter");

interface Row {
  name: string;
  phase: string;
  size: number;
}

const columns: readonly FilterColumn<Row>[] = [
  { key: "name", text: ({ name }) => name },
  { key: "phase", text: ({ phase }) => phase, choices: true },
  { key: "size", text: ({ size }) => `${size} MB`, order: ({ size }) => size },
];
const rows: Row[] = [
  { name: "Alice", phase: "Active", size: 9 },
  { name: "bob", phase: "Error", size: 10 },
  { name: "carol", phase: "ReleaseFailed", size: 100 },
];

function shown(query: string): string[] {
  const { keeps, compare } = applyFilter(readFilter(new URLSearchParams(query), columns), columns);
  return rows
    .filter(keeps)
    .sort(compare)
    .map(({ name }) => name);
}

test("a query finds what columns show, in any case, and values by comma", () => {
  assert.equal(shown(""), ["Alice", "bob", "carol"]);
  assert.equal(shown("q=ALI"), ["Alice"]);
  assert.equal(shown("q=10+MB"), ["bob"]);
  assert.equal(shown("phase=Error,ReleaseFailed"), ["bob", "carol"]);
  assert.equal(shown("phase=Error&q=carol"), []);
});

test("numbers sort as numbers, texts as texts, and a minus turns them round", () => {
  assert.equal(shown("sort=-size"), ["carol", "bob", "Alice"]);
  assert.equal(shown("sort=size"), ["Alice", "bob", "carol"]);
  assert.equal(shown("sort=-phase"), ["carol", "bob", "Alice"]);
});

test("what names no column, or one without choices, is ignored", () => {
  assert.equal(shown("sort=nothing&name=bob&other=1"), ["Alice", "bob", "carol"]);
});

test("a column with a list of values takes no other, and one that is not offered takes any", () => {
  const listed: readonly FilterColumn<Row>[] = [
    { key: "name", text: ({ name }) => name, choices: "address" },
    { key: "phase", text: ({ phase }) => phase, choices: ["Active", "Error"] },
  ];
  const read = (query: string) =>
    [...readFilter(new URLSearchParams(query), listed).fields].map(([key, of]) => [key, ...of]);
  assert.equal(read("phase=Error,Nonsense&name=bob,,eve"), [
    ["name", "bob", "eve"],
    ["phase", "Error"],
  ]);
  assert.equal(read("phase=Nonsense&name="), []);
});

test("a filter that is written and read again is the same, and other parameters stay", () => {
  const query = new URLSearchParams("q=a%26b&phase=Error,Active&sort=-size&tab=logs");
  const filter = readFilter(query, columns);
  const written = writeFilter(filter, { query: new URLSearchParams("tab=logs&q=old"), columns });
  assert.equal(readFilter(written, columns), filter);
  assert.is(written.get("tab"), "logs");
  const empty = writeFilter({ text: "", fields: new Map(), sort: undefined }, { query, columns });
  assert.is(String(empty), "tab=logs");
});

test.run();
