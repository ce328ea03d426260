// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Actor } from "../../../edge/access/actor.ts";
import { createTokenActors, type TokenGrant } from "../../../edge/access/token-actors.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";

const test = suite("actors of tokens");

const END_MS = 3_600_000;

function stage(options: { most?: number; mostInAll?: number } = {}) {
  const clock = manualClock();
  const endsAt = clock.now() + END_MS;
  const verified: string[] = [];
  const refusals = new Map<string, HttpError>();
  const refs = new Map<string, string>();
  const actors = createTokenActors({
    ...{ clock, steady: clock, recheckMs: 60_000, ...options },
    async verify(text): Promise<TokenGrant> {
      verified.push(text);
      const refusal = refusals.get(text);
      if (refusal !== undefined) throw refusal;
      const [id = ""] = text.split("/");
      return { kind: "person", id, ref: refs.get(text) ?? text, role: "reader", tenants: undefined, endsAt };
    },
  });
  return { clock, actors, verified, refusals, refs };
}

async function refusalOf(call: Actor | Promise<Actor>): Promise<number> {
  const refusal = await Promise.resolve(call).catch((error: unknown) => error);
  assert.instance(refusal, HttpError);
  return (refusal as HttpError).status;
}

test("a token that is used is verified once a minute, however often it arrives, and one that is not never", async () => {
  const { actors, verified, clock } = stage();
  const all = await Promise.all(Array.from({ length: 20 }, () => actors.actorOf("alice/1")));
  assert.is(new Set(all).size, 1);
  assert.is(verified.length, 1);
  await clock.pass(59_999);
  assert.is(actors.actorOf("alice/1"), all[0]);
  await clock.pass(1);
  const again = Array.from({ length: 20 }, () => actors.actorOf("alice/1"));
  assert.is(verified.length, 2);
  assert.equal(new Set(await Promise.all(again)), new Set([all[0]]));
  await clock.pass(600_000);
  assert.is(verified.length, 2);
  const close = all[0]?.opens?.();
  await clock.pass(0);
  assert.is(verified.length, 3);
  await clock.pass(120_000);
  assert.is(verified.length, 5);
  close?.();
  await clock.pass(END_MS);
  assert.is(verified.length, 5);
  assert.ok(all[0]?.ended.aborted);
  assert.is(clock.pending(), 0);
});

test("a token that is found invalid, or gives something else, ends what it has opened", async () => {
  const { actors, clock, refusals, refs } = stage();
  const alice = await actors.actorOf("alice/1");
  const bob = await actors.actorOf("bob/1");
  const carol = await actors.actorOf("carol/1");
  for (const actor of [alice, bob, carol]) actor.opens?.();
  refusals.set("alice/1", new HttpError(401, "deleted"));
  refs.set("bob/1", "less");
  refusals.set("carol/1", new HttpError(503, "unknown"));
  await clock.pass(60_000);
  assert.equal(
    [alice, bob, carol].map(({ ended }) => ended.aborted),
    [true, true, false],
  );
  assert.is((await actors.actorOf("bob/1")).ref, "less");
  // Unknown: it is not answered from memory, and what is open stays open.
  assert.equal([await refusalOf(actors.actorOf("alice/1")), await refusalOf(actors.actorOf("carol/1"))], [401, 503]);
  refusals.clear();
  await clock.pass(60_000);
  assert.is(actors.actorOf("carol/1"), carol);
  actors.close();
  assert.ok(carol.ended.aborted);
  assert.is(clock.pending(), 0);
});

test("a clock that is set back does not make a token valid for longer without a check", async () => {
  const clock = manualClock();
  const verified: string[] = [];
  const actors = createTokenActors({
    ...{ clock, steady: { now: steadyOf(clock) }, recheckMs: 60_000 },
    async verify(text): Promise<TokenGrant> {
      verified.push(text);
      return { kind: "person", id: text, ref: text, role: "reader", tenants: undefined, endsAt: clock.now() + END_MS };
    },
  });
  await actors.actorOf("alice");
  await clock.pass(60_000);
  clock.set(clock.now() - 120_000);
  await actors.actorOf("alice");
  assert.is(verified.length, 2);
  actors.close();
});

/** What has passed of a manual clock, whatever it was set to. */
function steadyOf(clock: ManualClock): () => number {
  const start = clock.now();
  let offset = 0;
  const { set } = clock;
  clock.set = (time) => {
    offset += clock.now() - time;
    set(time);
  };
  return () => clock.now() - start + offset;
}

test("many tokens of one account end nothing: the bound is of idle ones, the least recently used go first", async () => {
  const { actors, clock, verified, refusals } = stage({ most: 3, mostInAll: 5 });
  const streams = [];
  const closes = [];
  for (let count = 0; count < 150; count += 1) {
    const actor = await actors.actorOf(`web/open-${count}`);
    streams.push(actor);
    closes.push(actor.opens?.());
  }
  for (let count = 0; count < 10; count += 1) await actors.actorOf(`web/idle-${count}`);
  assert.not.ok(streams.some(({ ended }) => ended.aborted));
  // Each of those with something open is still checked, and ends by itself.
  refusals.set("web/open-0", new HttpError(401, "its pod was deleted"));
  verified.length = 0;
  await clock.pass(60_000);
  assert.is(verified.length, 150);
  assert.equal(
    streams.map(({ ended }) => ended.aborted),
    [true, ...Array(149).fill(false)],
  );
  verified.length = 0;
  for (let count = 0; count < 10; count += 1) await actors.actorOf(`web/idle-${count}`);
  assert.is(verified.length, 10, "their time is over too");
  for (const at of [9, 8, 7]) assert.is((await actors.actorOf(`web/idle-${at}`)).ended.aborted, false);
  assert.is(verified.length, 10, "the last three are stored");
  const used = await actors.actorOf("web/idle-7");
  used.opens?.()();
  await actors.actorOf("web/idle-0");
  verified.length = 0;
  for (const at of [7, 9, 0]) await actors.actorOf(`web/idle-${at}`);
  assert.equal(verified, [], "the one before was the least recently used");
  await actors.actorOf("web/idle-8");
  assert.equal(verified, ["web/idle-8"]);
  // What closes becomes idle, and is bounded again.
  for (const close of closes) close?.();
  assert.ok(clock.pending() <= 2 * 3, "the end and the next check of each that is stored");
  await clock.pass(END_MS);
  assert.ok(streams.every(({ ended }, at) => at < 147 || ended.aborted));
  assert.is(clock.pending(), 0);
});

test("one who has many tokens pushes out none of another", async () => {
  const { actors, verified } = stage({ most: 3, mostInAll: 5 });
  for (const text of ["bob/1", "carol/1"]) await actors.actorOf(text);
  for (let count = 0; count < 10; count += 1) await actors.actorOf(`alice/${count}`);
  await actors.actorOf("dave/1");
  verified.length = 0;
  for (const text of ["bob/1", "carol/1", "dave/1", "alice/8", "alice/9"]) await actors.actorOf(text);
  assert.equal(verified, []);
  actors.close();
});

test("what is opened under an actor that was forgotten ends with its token all the same", async () => {
  for (const isUsedAgain of [false, true]) {
    const { actors, clock, refusals } = stage({ most: 1 });
    const first = await actors.actorOf("alice/1");
    await actors.actorOf("alice/2");
    const again = isUsedAgain ? await actors.actorOf("alice/1") : undefined;
    assert.is.not(again, first);
    const close = again?.opens?.();
    first.opens?.();
    await clock.pass(60_000);
    assert.not.ok(first.ended.aborted || again?.ended.aborted);
    refusals.set("alice/1", new HttpError(401, "deleted"));
    await clock.pass(60_000);
    assert.ok(first.ended.aborted);
    assert.is(again?.ended.aborted, isUsedAgain || undefined);
    close?.();
    actors.close();
    assert.is(clock.pending(), 0);
    const late = await actors.actorOf("alice/3");
    assert.ok(late.ended.aborted);
    assert.is(clock.pending(), 0);
  }
});

test.run();
