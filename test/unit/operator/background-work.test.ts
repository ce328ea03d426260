import { test } from "uvu";
import * as assert from "uvu/assert";
import { createBackgroundWork } from "../../../operator/background-work.ts";
import { manualClock } from "../manual-clock.ts";

interface Piece {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly onBytes: (bytes: number) => void;
  succeed(value: string): Promise<void>;
  fail(error: Error): Promise<void>;
}

/** Work whose end the test decides. */
function workshop(concurrency = 2) {
  const clock = manualClock();
  const work = createBackgroundWork<string>({ concurrency, firstBackoffMs: 1000, maximumBackoffMs: 4000, clock });
  const begun: Piece[] = [];
  const woken: string[] = [];
  const ask = (id: string, tenant?: string) =>
    work.run(
      id,
      (signal, onBytes) =>
        new Promise((resolve, reject) => {
          begun.push({
            ...{ id, signal, onBytes },
            succeed: (value) => settle(() => resolve(value)),
            fail: (error) => settle(() => reject(error)),
          });
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
      () => woken.push(id),
      tenant,
    );
  const ids = () => begun.map(({ id }) => id);
  return { clock, work, begun, woken, ask, ids };
}

async function settle(end: () => void): Promise<void> {
  end();
  await new Promise((resolve) => setImmediate(resolve));
}

test("createBackgroundWork runs so many at once, the others in the order in which they were asked for", async () => {
  const { begun, ask, ids } = workshop(2);
  for (const id of ["a", "b", "c", "d"]) assert.equal(ask(id), { state: "running" });
  assert.equal(ids(), ["a", "b"]);
  await begun[1]?.succeed("of b");
  assert.equal(ids(), ["a", "b", "c"]);
  await begun[0]?.fail(new Error("no"));
  assert.equal(ids(), ["a", "b", "c", "d"]);
});

test("createBackgroundWork begins nothing twice, wakes at its end, and remembers how it ended", async () => {
  const { begun, woken, ask, ids, work } = workshop();
  ask("a");
  ask("a");
  assert.equal(ids(), ["a"]);
  await begun[0]?.succeed("done");
  assert.equal(woken, ["a"]);
  assert.equal(ask("a"), { state: "done", value: "done" });
  assert.equal(ids(), ["a"]);
  work.forget("a");
  assert.equal(ask("a"), { state: "running" });
  assert.equal(ids(), ["a", "a"]);
});

test("createBackgroundWork tries what failed again after its back-off, which grows to its maximum", async () => {
  const { begun, ask, clock } = workshop();
  const waits: number[] = [];
  for (let failures = 1; failures <= 6; failures += 1) {
    assert.is(ask("a").state, "running");
    await begun.at(-1)?.fail(new Error(`failure ${failures}`));
    const ended = ask("a");
    assert.ok(ended.state === "failed");
    assert.is(ended.failures, failures);
    assert.match(String(ended.error), `failure ${failures}`);
    waits.push(ended.retryInMs);
    clock.after(ended.retryInMs - 1, () => undefined);
    await clock.runNext();
    assert.is(ask("a").state, "failed", "not yet");
    clock.after(1, () => undefined);
    await clock.runNext();
  }
  assert.is(begun.length, 6);
  assert.ok(Math.max(...waits) <= 4000, waits.join(" "));
  assert.ok((waits[0] ?? 0) <= 1000 && (waits.at(-1) ?? 0) > (waits[0] ?? 0), waits.join(" "));
});

test("createBackgroundWork forgets a back-off when it is told to retryNow", async () => {
  const { begun, ask, work } = workshop();
  ask("a");
  await begun[0]?.fail(new Error("no"));
  assert.is(ask("a").state, "failed");
  work.retryNow();
  assert.is(ask("a").state, "running");
  assert.is(begun.length, 2);
});

test("createBackgroundWork forgets the back-off of one piece alone when it is told which", async () => {
  const { begun, ask, work } = workshop();
  for (const id of ["a", "b"]) ask(id);
  for (const piece of [...begun]) await piece.fail(new Error("no"));
  work.retryNow("b");
  assert.equal([ask("a").state, ask("b").state], ["failed", "running"]);
});

test("createBackgroundWork aborts what is forgotten, begins nothing of it that waits, and wakes nobody", async () => {
  const { begun, woken, ask, ids, work } = workshop(1);
  ask("a");
  ask("b");
  ask("c");
  work.forget("a");
  work.forget("b");
  assert.ok(begun[0]?.signal.aborted);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(ids(), ["a", "c"]);
  assert.equal(woken, []);
});

test("createBackgroundWork keeps what comes after a forgotten piece of the same id apart from it", async () => {
  const { begun, ask, work } = workshop(2);
  ask("a");
  work.forget("a");
  ask("a");
  await begun[0]?.succeed("too late");
  assert.equal(ask("a"), { state: "running" });
  await begun[1]?.succeed("in time");
  assert.equal(ask("a"), { state: "done", value: "in time" });
});

test("createBackgroundWork stops: everything is aborted, waited for, and nothing begins any more", async () => {
  const { begun, woken, ask, ids, work } = workshop(1);
  ask("a");
  ask("b");
  await work.stop();
  assert.ok(begun[0]?.signal.aborted);
  ask("c");
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(ids(), ["a"]);
  assert.equal(woken, []);
});

test("createBackgroundWork runs what is new before what has failed, of which it runs as many as half of its slots", async () => {
  const { begun, ask, ids, clock } = workshop(4);
  for (const id of ["a", "b", "c", "d"]) ask(id);
  for (const piece of [...begun]) await piece.fail(new Error("no"));
  clock.after(60_000, () => undefined);
  await clock.runNext();
  for (const id of ["a", "b", "c", "d"]) assert.equal(ask(id), { state: "running" });
  assert.equal(ids().slice(4), ["a", "b"]);
  for (const id of ["e", "f", "g"]) ask(id);
  assert.equal(ids().slice(6), ["e", "f"]);
  await begun[4]?.fail(new Error("again"));
  assert.equal(ids().slice(8), ["g"], "c and d have waited longer");
  await begun[6]?.succeed("of e");
  assert.equal(ids().slice(9), ["c"]);
});

test("createBackgroundWork gives one tenant half of its slots, whether others wait or not", async () => {
  const { begun, ask, ids } = workshop(4);
  for (const id of ["a1", "a2", "a3", "a4"]) ask(id, "a");
  assert.equal(ids(), ["a1", "a2"]);
  ask("b1", "b");
  assert.equal(ids(), ["a1", "a2", "b1"]);
  await begun[1]?.succeed("of a2");
  assert.equal(ids(), ["a1", "a2", "b1", "a3"]);
});

test("createBackgroundWork gives waiting tenants their turns, however many pieces one of them asked for first", async () => {
  const { begun, ask, ids } = workshop(1);
  for (const id of ["a1", "a2", "a3", "a4"]) ask(id, "a");
  for (const id of ["b1", "b2"]) ask(id, "b");
  for (let ended = 0; ended < 5; ended += 1) await begun[ended]?.succeed("done");
  assert.equal(ids(), ["a1", "a2", "b1", "a3", "b2", "a4"]);
});

test("createBackgroundWork lets others begin when all slots have been held for a minute, up to as many again", async () => {
  const { begun, ask, ids, clock } = workshop(2);
  for (const id of ["slow", "slower", "a", "b", "c"]) ask(id);
  assert.equal(ids(), ["slow", "slower"]);
  assert.is(await clock.runNext(), 60_000);
  assert.equal(ids(), ["slow", "slower", "a", "b"]);
  await begun[2]?.succeed("of a");
  assert.equal(ids(), ["slow", "slower", "a", "b", "c"]);
  ask("d");
  assert.is(await clock.runNext(), 60_000);
  assert.is(begun.length, 5, "four run");
  assert.equal([clock.pending(), clock.nextIn()], [1, 60_000], "it looks again once a minute");
  await begun[0]?.succeed("at last");
  assert.is(ids().at(-1), "d");
});

const KIB = 1024;

test("createBackgroundWork takes what is slow for less than a slot, and what is fast for a whole one", async () => {
  for (const [pace, runs] of [
    [64 * KIB, 6],
    [2048 * KIB, 4],
  ] as const) {
    const { begun, ask, clock, work } = workshop(2);
    for (let count = 1; count <= 8; count += 1) ask(`${count}`);
    for (let minute = 1; minute <= 2; minute += 1) {
      for (const { onBytes } of begun) onBytes(60 * pace);
      assert.is(await clock.runNext(), 60_000);
    }
    assert.is(begun.length, runs, `${pace} bytes a second`);
    await work.stop();
    assert.is(clock.pending(), 0);
  }
});

test("createBackgroundWork has the slowest give way where they are too many for its memory, and runs it again", async () => {
  const { begun, ask, ids, woken, clock } = workshop(1);
  const long = ["1", "2", "3", "4", "5", "6", "7", "8"];
  for (const id of long) ask(id);
  for (let minute = 1; minute <= 7; minute += 1) {
    for (const { id, onBytes } of begun) onBytes(60 * (id === "3" ? 10 : 20) * KIB);
    await clock.runNext();
  }
  assert.equal(ids(), long);
  ask("next");
  for (const { id, onBytes } of begun) onBytes(60 * (id === "3" ? 10 : 20) * KIB);
  await clock.runNext();
  await settle(() => undefined);
  assert.equal(
    begun.filter(({ signal }) => signal.aborted).map(({ id }) => id),
    ["3"],
  );
  assert.equal([ids().at(-1), woken, ask("3").state], ["next", [], "running"], "it is put off, and has not failed");
  await begun.at(-1)?.succeed("done");
  assert.is(ids().at(-1), "3");
  await begun.at(-1)?.succeed("at last");
  assert.equal([ask("3"), woken], [{ state: "done", value: "at last" }, ["next", "3"]]);
});

test("createBackgroundWork goes by the pace of the last minute, from the first byte on", async () => {
  // What was fast for a minute, and what has waited in its pod for one.
  for (const first of [1, 0]) {
    const { begun, ask, ids, clock } = workshop(2);
    for (let count = 1; count <= 5; count += 1) ask(`${count}`);
    for (const { onBytes } of begun) if (first > 0) onBytes(first * 600_000 * KIB);
    await clock.runNext();
    assert.equal(ids(), ["1", "2", "3", "4"]);
    while (clock.pending() > 0) {
      for (const { onBytes } of begun) onBytes(60 * 64 * KIB);
      await clock.runNext();
    }
    assert.equal(ids(), ["1", "2", "3", "4", "5"]);
  }
});

test("createBackgroundWork begins a retry beside slow retries, though nothing ends", async () => {
  const { begun, ask, ids, clock, work } = workshop(2);
  for (const id of ["a", "b"]) ask(id);
  for (const piece of [...begun]) await piece.fail(new Error("no"));
  work.retryNow();
  for (const id of ["a", "b"]) ask(id);
  assert.equal(ids().slice(2), ["a"]);
  while (clock.pending() > 0) {
    begun[2]?.onBytes(60 * 64 * KIB);
    await clock.runNext();
  }
  assert.equal(ids().slice(2), ["a", "b"]);
});

test("createBackgroundWork with one slot runs a tenant's work, and what has failed", async () => {
  const { begun, ask, ids, work } = workshop(1);
  ask("a", "a");
  await begun[0]?.fail(new Error("no"));
  work.retryNow();
  ask("a", "a");
  assert.equal(ids(), ["a", "a"]);
});

test.run();
