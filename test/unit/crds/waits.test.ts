// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  createPause,
  linkSignals,
  orAborted,
  startDeadline,
  TimeLimitError,
  whenAborted,
  withTimeLimit,
} from "../../../crds/waits.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("waits");
const reason = new Error("enough");

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

test("linkSignals aborts with the first signal's reason, also one aborted before, and no longer once closed", () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const linked = linkSignals(first.signal, undefined, second.signal);
  const closed = linkSignals(first.signal);
  closed.close();
  second.abort(reason);
  first.abort(new Error("later"));
  assert.is(linked.signal.reason, reason);
  assert.is(closed.signal.aborted, false);
  assert.is(linkSignals(second.signal).signal.reason, reason);
});

test("whenAborted resolves at the first abort, and stays open once closed", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const waits = whenAborted([undefined, first.signal, second.signal]);
  const closed = whenAborted([second.signal]);
  closed.close();
  second.abort();
  assert.is(await waits.promise, undefined);
  assert.is(await whenAborted([second.signal]).promise, undefined);
  assert.is(await Promise.race([closed.promise, "open"]), "open");
});

test("orAborted gives the promise's result, or the signal's reason at once", async () => {
  const stop = new AbortController();
  assert.is(await orAborted(Promise.resolve("done"), stop.signal), "done");
  const waits = orAborted(new Promise(() => undefined), stop.signal);
  stop.abort(reason);
  assert.is(await failureOf(waits), reason);
  assert.is(await failureOf(orAborted(new Promise(() => undefined), stop.signal)), reason);
});

test("withTimeLimit aborts the work when the time is up or the signal is aborted, and leaves no timer", async () => {
  const clock = manualClock();
  const stop = new AbortController();
  const limit = { what: "the answer", ms: 2000, clock, signal: stop.signal };
  const untilAborted = (signal: AbortSignal): Promise<void> => orAborted(new Promise<void>(() => undefined), signal);
  const late = failureOf(withTimeLimit(limit, untilAborted));
  await clock.pass(2000);
  const error = await late;
  assert.instance(error, TimeLimitError);
  assert.is((error as Error).message, "the answer took longer than 2 s");
  assert.is(await withTimeLimit(limit, async () => "in time"), "in time");
  const stopped = failureOf(withTimeLimit(limit, untilAborted));
  stop.abort(reason);
  assert.is(await stopped, reason);
  assert.is(clock.pending(), 0);
  let began = false;
  const never = withTimeLimit(limit, async () => {
    began = true;
  });
  assert.is(await failureOf(never), reason);
  assert.is(began, false);
});

test("a deadline is aborted when its time is up, and not once closed", async () => {
  const clock = manualClock();
  const [kept, closed] = [startDeadline(1000, clock), startDeadline(1000, clock)];
  closed.close();
  await clock.pass(999);
  assert.is(kept.signal.aborted, false);
  await clock.pass(1);
  assert.equal([kept.signal.aborted, closed.signal.aborted], [true, false]);
});

test("a pause ends after its time, by its owner, or with the signal's reason, and leaves no timer", async () => {
  const clock = manualClock();
  const stop = new AbortController();
  const pause = createPause(clock);
  pause.end();
  const full = pause.wait(1000, stop.signal);
  await clock.pass(1000);
  await full;
  const ended = pause.wait(1000, stop.signal);
  pause.end();
  await ended;
  const stopped = pause.wait(1000, stop.signal);
  stop.abort(reason);
  assert.is(await failureOf(stopped), reason);
  assert.is(await failureOf(pause.wait(1000, stop.signal)), reason);
  assert.is(clock.pending(), 0);
});

test.run();
