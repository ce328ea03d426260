import { test } from "uvu";
import * as assert from "uvu/assert";
import { createChanges } from "../../../scripts/bench/fixtures/changes.ts";

const what = () => "a sign";

test("createChanges: until resolves at the change that brings an answer, for everyone who waits", async () => {
  const changes = createChanges();
  let value = 0;
  const options = { what, limitMs: 60_000, signal: new AbortController().signal };
  const waiting = [2, 2, 1].map((least) => changes.until(() => value >= least && value, options));
  value = 1;
  changes.notify();
  assert.is(await waiting[2], 1);
  value = 2;
  changes.notify();
  assert.equal(await Promise.all(waiting), [2, 2, 1]);
});

test("createChanges: until looks at once", async () => {
  const options = { what, limitMs: 60_000, signal: new AbortController().signal };
  assert.is(await createChanges().until(() => "there", options), "there");
});

test("createChanges: until rejects after its limit with what it waited for, and when it is aborted", async () => {
  const changes = createChanges();
  const stop = new AbortController();
  const late = changes.until<string>(() => undefined, { what, limitMs: 1, signal: stop.signal });
  assert.match(await late.catch((error: Error) => error.message), /Cannot wait any longer for a sign/);
  const aborted = changes.until<string>(() => undefined, { what, limitMs: 60_000, signal: stop.signal });
  stop.abort(new Error("stopped"));
  assert.match(await aborted.catch((error: Error) => error.message), /stopped/);
});

test.run();
