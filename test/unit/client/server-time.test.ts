// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createServerTime } from "../../../crds/client/server-time.ts";

/** As an API server's answer says it: without milliseconds. */
const header = (ms: number): string => new Date(ms).toUTCString();

test("createServerTime is the local time until an answer says the server's", () => {
  const time = createServerTime({ clock: { now: () => 5000 }, steady: { now: () => 77 } });
  assert.is(time.now(), 5000);
  for (const date of [undefined, "", "soon"]) time.heard(date, 0);
  assert.is(time.now(), 5000);
});

test("createServerTime is within a second of the server, however late answers come, also after its clock was set", () => {
  // By more than an answer's second and its way can hide.
  const setMs = fc.oneof(fc.integer({ min: 3000, max: 1e9 }), fc.integer({ min: -1e9, max: -3000 }));
  const answer = fc.record({ pauseMs: fc.nat(100_000), toMs: fc.nat(400), fromMs: fc.nat(400), setMs });
  fc.assert(
    fc.property(fc.array(answer, { minLength: 1, maxLength: 50 }), fc.nat(1e9), (answers, started) => {
      let steady = 0;
      let offset = Date.UTC(2026, 0, 1) + started;
      const time = createServerTime({ clock: { now: () => 0 }, steady: { now: () => steady } });
      for (const [index, { pauseMs, toMs, fromMs, setMs }] of answers.entries()) {
        steady += pauseMs;
        if (index % 10 === 9) offset += setMs;
        const sentAt = steady;
        steady += toMs;
        const date = header(steady + offset);
        steady += fromMs;
        time.heard(date, sentAt);
        assert.ok(Math.abs(time.now() - (steady + offset)) <= 1000, `${time.now() - (steady + offset)}`);
      }
    }),
  );
});

test("createServerTime takes a date for that of the answer's end, where a server took long", () => {
  let steady = 0;
  const time = createServerTime({ clock: { now: () => 0 }, steady: { now: () => steady } });
  // The second one is another server's, whose clock is 5 s ahead.
  for (const offset of [1_000_000, 1_005_000]) {
    const sentAt = steady;
    steady += 30_000;
    time.heard(header(steady + offset), sentAt);
    assert.ok(Math.abs(time.now() - (steady + offset)) <= 1000, `${time.now() - (steady + offset)}`);
    time.heard(header(steady + offset), steady);
  }
});

test("createServerTime narrows down to less than a second with each answer", () => {
  let steady = 0;
  const time = createServerTime({ clock: { now: () => 0 }, steady: { now: () => steady } });
  for (let index = 0; index < 100; index += 1) {
    steady += 137;
    time.heard(header(steady + 1_000_250), steady);
  }
  assert.ok(Math.abs(time.now() - (steady + 1_000_250)) < 20, `${time.now() - steady}`);
});

test.run();
