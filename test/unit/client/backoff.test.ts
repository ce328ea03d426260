// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createBackoff } from "../../../crds/client/backoff.ts";

test("createBackoff doubles up to the limit and starts over after a reset", () => {
  const backoff = createBackoff({ initialMs: 800, maxMs: 30_000, random: () => 1 });
  const delays = Array.from({ length: 8 }, () => backoff.next());
  assert.equal(delays, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
  backoff.reset();
  assert.is(backoff.next(), 800);
});

test("createBackoff spreads each delay over the upper half of its step", () => {
  const random = [0, 0.5, 1];
  const backoff = createBackoff({ initialMs: 1000, maxMs: 1000, random: () => random.shift() ?? 0 });
  assert.equal([backoff.next(), backoff.next(), backoff.next()], [500, 750, 1000]);
});

test.run();
