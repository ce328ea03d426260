import { test } from "uvu";

test.before(() => {
  throw new Error("cannot start what the tests need");
});
test("never runs", () => undefined);
test.run();
