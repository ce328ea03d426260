// @runtimes bun node deno
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compareText, createView } from "../../../edge/dashboard/table/view.ts";

const test = suite("dashboard/view");

interface Row {
  key: string;
  value: number;
}

const row = fc.record({ key: fc.constantFrom("a", "b", "c", "d", "e", "f"), value: fc.integer({ min: 0, max: 3 }) });
const orders = {
  up: (a: Row, b: Row) => a.value - b.value,
  down: (a: Row, b: Row) => b.value - a.value,
  none: () => 0,
};
const step = fc.oneof(
  fc.record({ do: fc.constant("put" as const), row }),
  fc.record({ do: fc.constant("remove" as const), key: row.map(({ key }) => key) }),
  fc.record({ do: fc.constant("reset" as const), rows: fc.array(row) }),
  fc.record({
    do: fc.constant("order" as const),
    order: fc.constantFrom(...(Object.keys(orders) as (keyof typeof orders)[])),
    atLeast: fc.integer({ min: 0, max: 2 }),
  }),
);

test("after any changes a view is what filtering and sorting all rows gives", () => {
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const view = createView<Row>(({ key }) => key);
      const all = new Map<string, Row>();
      let compare: (a: Row, b: Row) => number = orders.none;
      let keeps = (_row: Row): boolean => true;
      for (const one of steps) {
        if (one.do === "put") {
          view.put(one.row);
          all.set(one.row.key, one.row);
        } else if (one.do === "remove") {
          view.remove(one.key);
          all.delete(one.key);
        } else if (one.do === "reset") {
          view.reset(one.rows);
          all.clear();
          for (const each of one.rows) all.set(each.key, each);
        } else {
          compare = orders[one.order];
          keeps = ({ value }) => value >= one.atLeast;
          view.setOrder(compare, keeps);
        }
        const expected = [...all.values()].filter(keeps);
        expected.sort((a, b) => compare(a, b) || compareText(a.key, b.key));
        assert.equal(view.rows, expected);
        for (const key of "abcdef") {
          assert.is(
            view.indexOf(key),
            expected.findIndex((each) => each.key === key),
          );
        }
      }
    }),
  );
});

test.run();
