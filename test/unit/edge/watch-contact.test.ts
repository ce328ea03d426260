// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createFreshness } from "../../../edge/cluster/freshness.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("createFreshness");

async function pass(clock: ReturnType<typeof manualClock>, ms: number): Promise<void> {
  clock.after(ms, () => undefined);
  await clock.runNext();
}

test("is in contact once the first watch is open, not before", () => {
  const contact = createFreshness(manualClock());
  assert.is(contact.isFresh(), false);
  for (const kind of ["empty", "init-page", "init-listed"] as const) {
    contact.onState({ kind });
    assert.is(contact.isFresh(), false, kind);
  }
  contact.onState({ kind: "watching" });
  assert.is(contact.isFresh(), true);
});

test("a quiet watch stays in contact", async () => {
  const clock = manualClock();
  const contact = createFreshness(clock);
  contact.onState({ kind: "watching" });
  await pass(clock, 3_600_000);
  assert.is(contact.isFresh(), true);
});

test("between one watch and the next it stays in contact for two seconds, counted from the end of the watch", async () => {
  const clock = manualClock();
  const contact = createFreshness(clock);
  contact.onState({ kind: "watching" });
  contact.onState({ kind: "init-listed" });
  await pass(clock, 1500);
  assert.is(contact.isFresh(), true);
  contact.onState({ kind: "empty" });
  await pass(clock, 500);
  assert.is(contact.isFresh(), false);
  contact.onState({ kind: "init-listed" });
  assert.is(contact.isFresh(), false);
  contact.onState({ kind: "watching" });
  assert.is(contact.isFresh(), true);
});

test.run();
