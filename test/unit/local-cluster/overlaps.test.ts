import { test } from "uvu";
import * as assert from "uvu/assert";
import { overlaps } from "../../../scripts/cluster/node/network.ts";

for (const [destination, expected] of [
  ["default", false],
  ["10.231.7.0/24", true],
  ["10.231.7.9", true],
  ["10.231.7.128/25", true],
  ["10.231.0.0/16", true],
  ["10.224.0.0/12", true],
  ["10.0.0.0/8", false],
  ["10.231.8.0/24", false],
  ["10.231.8.1", false],
  ["192.168.1.0/24", false],
] as const) {
  test(`overlaps tells ${expected} of a route to ${destination} and 10.231.7.0/24`, () => {
    assert.is(overlaps(destination, "10.231.7"), expected);
  });
}

test.run();
