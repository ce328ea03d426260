import { test } from "uvu";
import * as assert from "uvu/assert";
import { createPathIndex } from "../../../crds/archive/path-index.ts";

test("createPathIndex numbers names in their order, and finds those alone", () => {
  const index = createPathIndex();
  const names = Array.from({ length: 200_000 }, (_, count) => `data/${count % 7}/${count.toString(36)}`);
  assert.is(index.find("data"), -1);
  names.forEach((name, count) => {
    if (index.add(name) !== count) assert.unreachable(name);
  });
  names.forEach((name, count) => {
    if (index.find(name) !== count || index.add(name) !== count) assert.unreachable(name);
    if (index.find(`${name} `) !== -1) assert.unreachable(`${name} and a space`);
  });
  assert.is(index.size, names.length);
});

test.run();
