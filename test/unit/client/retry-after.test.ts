// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { retryAfter } from "../../../crds/client/transport.ts";

const now = Date.parse("2026-03-01T12:00:00Z");

test("retryAfter reads seconds and dates as milliseconds from now", () => {
  assert.is(retryAfter("2", { now }), 2000);
  assert.is(retryAfter("0", { now }), 0);
  assert.is(retryAfter("Sun, 01 Mar 2026 12:00:07 GMT", { now }), 7000);
  assert.is(retryAfter("Sun, 01 Mar 2026 11:00:00 GMT", { now }), 0);
});

test("retryAfter asks for nothing where the header is missing or makes no sense", () => {
  for (const header of [undefined, "", "soon"]) assert.is(retryAfter(header, { now }), undefined);
});

test.run();
