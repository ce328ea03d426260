import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Delivery, deliveriesOf, noDeliveries, withAnswer } from "../../../edge/dashboard/triggers/deliveries.ts";

const test = suite("dashboard/trigger page");

const since = "2026-01-02T03:00:00.000Z";
const delivery = (id: string, second: number): Delivery => ({
  id,
  at: `2026-01-02T03:04:0${second}.000Z`,
  result: "answered",
  ms: 1,
});

test("deliveries of two edges are one list, the newest first; an edge's newer answer takes its older one's place", () => {
  let known = withAnswer(noDeliveries, { replica: "a", since, deliveries: [delivery("a1", 1)] });
  known = withAnswer(known, { replica: "b", since, deliveries: [delivery("b1", 2)] });
  known = withAnswer(known, { replica: "a", since, deliveries: [delivery("a2", 3), delivery("a1", 1)] });
  assert.equal(
    deliveriesOf(known).map(({ id }) => id),
    ["a2", "b1", "a1"],
  );
  assert.is(known.answers.size, 2);
});

test.run();
