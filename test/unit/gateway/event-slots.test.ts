// @runtimes bun node deno
import * as fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createEventSlots, TooManyWaiting } from "../../../edge/gateway/events/event-slots.ts";
import { turns as go } from "../manual-clock.ts";

const test = suite("event slots");
const never = new AbortController().signal;

function testEnvironment(perTrigger: number, inAll: number, { perTenant = perTrigger, maxWaiting = 1000 } = {}) {
  const slots = createEventSlots({ perTenant, perTrigger, inAll, maxWaiting });
  const entered: string[] = [];
  const leaves = new Map<string, () => void>();
  /** Of `x/y` the tenant is y. */
  const enter = async (of: string, name = of, signal = never) => {
    const [trigger = "", tenant] = of.split("/");
    const leave = await slots.acquire({ trigger, tenant }, signal);
    entered.push(name);
    leaves.set(name, leave);
  };
  return { slots, entered, enter, leave: (name: string) => leaves.get(name)?.() };
}

test("a trigger has no more in flight than it may, first come first served", async () => {
  const { slots, entered, enter, leave } = testEnvironment(2, 10);
  for (const name of ["a1", "a2", "a3", "a4"]) void enter("a", name);
  await go();
  assert.equal(entered, ["a1", "a2"]);
  assert.is(slots.waiting, 2);
  leave("a2");
  await go();
  leave("a2");
  await go();
  assert.equal(entered, ["a1", "a2", "a3"], "a place is given back once");
  leave("a1");
  leave("a3");
  await go();
  leave("a4");
  assert.is(slots.inFlight, 0);
  assert.is(slots.waiting, 0);
});

test("the triggers that wait take turns, however many events one of them has", async () => {
  const { entered, enter, leave } = testEnvironment(10, 2);
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

test("a tenant has a share of its trigger, and the others find room, however slow its events are", async () => {
  const { slots, entered, enter, leave } = testEnvironment(4, 10, { perTenant: 2 });
  for (let count = 0; count < 9; count += 1) void enter("t/slow", `slow${count}`);
  void enter("t/other", "other0");
  void enter("t/third", "third0");
  await go();
  assert.equal(entered, ["slow0", "slow1", "other0", "third0"]);
  void enter("t/third", "third1");
  void enter("t/other", "other1");
  leave("third0");
  await go();
  leave("slow0");
  await go();
  leave("other0");
  await go();
  // A tenant at its share is passed over; of the others, the one served longest ago is next.
  assert.equal(entered.slice(4), ["other1", "slow2", "third1"]);
  assert.is(slots.inFlight, 4);
});

test("a trigger whose events are one tenant's has all of its places", async () => {
  const { entered, enter } = testEnvironment(4, 10, { perTenant: 1 });
  for (let count = 0; count < 5; count += 1) void enter("t", `e${count}`);
  await go();
  assert.is(entered.length, 4);
});

test("where too many wait, the tenant with the most gives up its newest, and nobody else anything", async () => {
  const { slots, enter, entered, leave } = testEnvironment(1, 10, { maxWaiting: 6 });
  const failed: string[] = [];
  const ask = (tenant: string, name: string) =>
    void enter(`t/${tenant}`, name).catch((error: unknown) => {
      assert.instance(error, TooManyWaiting);
      failed.push(name);
    });
  for (let count = 0; count < 9; count += 1) ask("many", `many${count}`);
  await go();
  assert.equal(failed, ["many7", "many8"]);
  ask("one", "one0");
  ask("two", "two0");
  ask("one", "one1");
  await go();
  assert.equal(failed, ["many7", "many8", "many6", "many5", "many4"]);
  ask("many", "many9");
  ask("one", "one2");
  await go();
  assert.equal(failed.slice(5), ["many9", "one2"], "none has more than another");
  assert.is(slots.waiting, 6);
  for (const name of entered) {
    leave(name);
    await go();
  }
  assert.equal(entered, ["many0", "many1", "one0", "two0", "many2", "one1", "many3"]);
  assert.is(slots.inFlight + slots.waiting, 0);
});

test("an abort ends the wait with its reason and takes no place", async () => {
  const { slots, entered, enter, leave } = testEnvironment(1, 1);
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
  assert.is(slots.inFlight + slots.waiting, 0);
  assert.is(await enter("a", "late", abort.signal).catch((error: unknown) => error), reason);
});

test("whatever comes and goes, the bounds hold and nobody is forgotten", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 5 }),
      fc.array(
        fc.record({
          trigger: fc.constantFrom("a", "b", "c"),
          tenant: fc.constantFrom("x", "y", undefined),
          gone: fc.boolean(),
          ms: fc.integer({ min: 0, max: 3 }),
        }),
        {
          maxLength: 30,
        },
      ),
      fc.integer({ min: 1, max: 20 }),
      async (perTrigger, inAll, events, maxWaiting) => {
        const perTenant = Math.ceil(perTrigger / 2);
        const slots = createEventSlots({ perTenant, perTrigger, inAll, maxWaiting });
        const inFlight = new Map<string, number>();
        const ofTenant = new Map<string, number>();
        let done = 0;
        await Promise.all(
          events.map(async ({ trigger, tenant, gone, ms }) => {
            const key = `${trigger}/${tenant}`;
            const abort = new AbortController();
            if (gone) setImmediate(() => abort.abort(new Error("gone")));
            let leave: () => void;
            try {
              leave = await slots.acquire({ trigger, tenant }, abort.signal);
            } catch {
              done += 1;
              return;
            }
            inFlight.set(trigger, (inFlight.get(trigger) ?? 0) + 1);
            ofTenant.set(key, (ofTenant.get(key) ?? 0) + 1);
            assert.ok((inFlight.get(trigger) ?? 0) <= perTrigger);
            assert.ok(tenant === undefined || (ofTenant.get(key) ?? 0) <= perTenant);
            assert.ok(slots.waiting <= 3 * maxWaiting);
            assert.ok([...inFlight.values()].reduce((sum, one) => sum + one) <= inAll);
            for (let turn = 0; turn < ms; turn += 1) await new Promise((resolve) => setImmediate(resolve));
            inFlight.set(trigger, (inFlight.get(trigger) ?? 0) - 1);
            ofTenant.set(key, (ofTenant.get(key) ?? 0) - 1);
            leave();
            done += 1;
          }),
        );
        assert.is(done, events.length);
        assert.is(slots.inFlight + slots.waiting, 0);
      },
    ),
    { numRuns: 100 },
  );
});

test.run();
