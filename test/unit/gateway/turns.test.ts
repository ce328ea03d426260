// @runtimes node bun deno
import * as fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createTurns } from "../../../edge/gateway/turns.ts";
import { turns as go } from "./moving-clock.ts";

const test = suite("turns");
const never = new AbortController().signal;

function stage(perTrigger: number, inAll: number) {
  const turns = createTurns({ perTrigger, inAll });
  const entered: string[] = [];
  const leaves = new Map<string, () => void>();
  const enter = async (trigger: string, name = trigger, signal = never) => {
    const leave = await turns.take(trigger, signal);
    entered.push(name);
    leaves.set(name, leave);
  };
  return { turns, entered, enter, leave: (name: string) => leaves.get(name)?.() };
}

test("a trigger has no more in flight than it may, first come first served", async () => {
  const { turns, entered, enter, leave } = stage(2, 10);
  for (const name of ["a1", "a2", "a3", "a4"]) void enter("a", name);
  await go();
  assert.equal(entered, ["a1", "a2"]);
  assert.is(turns.waiting, 2);
  leave("a2");
  await go();
  leave("a2");
  await go();
  assert.equal(entered, ["a1", "a2", "a3"], "a place is given back once");
  leave("a1");
  leave("a3");
  await go();
  leave("a4");
  assert.is(turns.inFlight, 0);
  assert.is(turns.waiting, 0);
});

test("the triggers that wait take turns, however many events one of them has", async () => {
  const { entered, enter, leave } = stage(10, 2);
  for (let count = 0; count < 8; count += 1) void enter("busy", `busy${count}`);
  await go();
  void enter("calm");
  void enter("other");
  for (const name of ["busy0", "busy1", "busy2", "calm"]) {
    leave(name);
    await go();
  }
  assert.equal(entered, ["busy0", "busy1", "busy2", "calm", "other", "busy3"]);
});

test("an abort ends the wait with its reason and takes no place", async () => {
  const { turns, entered, enter, leave } = stage(1, 1);
  await enter("a", "first");
  const abort = new AbortController();
  const waiting = enter("a", "second", abort.signal).catch((error: unknown) => error);
  void enter("a", "third");
  const reason = new Error("gone");
  abort.abort(reason);
  assert.is(await waiting, reason);
  leave("first");
  await go();
  assert.equal(entered, ["first", "third"]);
  leave("third");
  assert.is(turns.inFlight + turns.waiting, 0);
  assert.is(await enter("a", "late", abort.signal).catch((error: unknown) => error), reason);
});

test("whatever comes and goes, the bounds hold and nobody is forgotten", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 5 }),
      fc.array(
        fc.record({ trigger: fc.constantFrom("a", "b", "c"), gone: fc.boolean(), ms: fc.integer({ min: 0, max: 3 }) }),
        {
          maxLength: 30,
        },
      ),
      async (perTrigger, inAll, events) => {
        const turns = createTurns({ perTrigger, inAll });
        const inFlight = new Map<string, number>();
        let done = 0;
        await Promise.all(
          events.map(async ({ trigger, gone, ms }) => {
            const abort = new AbortController();
            if (gone) setImmediate(() => abort.abort(new Error("gone")));
            let leave: () => void;
            try {
              leave = await turns.take(trigger, abort.signal);
            } catch {
              done += 1;
              return;
            }
            inFlight.set(trigger, (inFlight.get(trigger) ?? 0) + 1);
            assert.ok((inFlight.get(trigger) ?? 0) <= perTrigger);
            assert.ok([...inFlight.values()].reduce((sum, one) => sum + one) <= inAll);
            for (let turn = 0; turn < ms; turn += 1) await new Promise((resolve) => setImmediate(resolve));
            inFlight.set(trigger, (inFlight.get(trigger) ?? 0) - 1);
            leave();
            done += 1;
          }),
        );
        assert.is(done, events.length);
        assert.is(turns.inFlight + turns.waiting, 0);
      },
    ),
    { numRuns: 100 },
  );
});

test.run();
