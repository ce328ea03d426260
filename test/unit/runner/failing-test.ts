import { test } from "uvu";
import * as assert from "uvu/assert";

test("adds up", () => assert.is(1 + 1, 3));
test("says why", () => {
  throw new Error("there is no third");
});
test("passes", () => undefined);
test.run();
