// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createTokenActors, type TokenGrant } from "../../../edge/access/token-actors.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("actors of tokens");

const END_MS = 3_600_000;

function stage(options: { most?: number; mostInAll?: number } = {}) {
  const clock = manualClock();
  const endsAt = clock.now() + END_MS;
  const verified: string[] = [];
  const refusals = new Map<string, HttpError>();
  const refs = new Map<string, string>();
  const actors = createTokenActors({
    ...{ clock, recheckMs: 60_000, ...options },
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

test("a token is verified once a minute, however often it arrives", async () => {
  const { actors, verified, clock } = stage();
  const all = await Promise.all(Array.from({ length: 20 }, () => actors.actorOf("alice/1")));
  assert.is(new Set(all).size, 1);
  assert.is(verified.length, 1);
  await clock.pass(59_999);
  assert.is(actors.actorOf("alice/1"), all[0]);
  await clock.pass(1);
  assert.is(verified.length, 2);
  assert.is(actors.actorOf("alice/1"), all[0]);
  await clock.pass(END_MS);
  assert.ok(all[0]?.ended.aborted);
  assert.is(clock.pending(), 0);
});

test("a token that is found invalid, or gives something else, ends what it has opened", async () => {
  const { actors, clock, refusals, refs } = stage();
  const alice = await actors.actorOf("alice/1");
  const bob = await actors.actorOf("bob/1");
  const carol = await actors.actorOf("carol/1");
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
  for (const text of ["alice/1", "carol/1"]) {
    const refusal = await Promise.resolve(actors.actorOf(text)).catch((error: unknown) => error);
    assert.instance(refusal, HttpError);
  }
  refusals.clear();
  await clock.pass(60_000);
  assert.is(actors.actorOf("carol/1"), carol);
  actors.close();
  assert.ok(carol.ended.aborted);
  assert.is(clock.pending(), 0);
});

test("many tokens of one person push out the oldest of that person only", async () => {
  const { actors, clock } = stage({ most: 3, mostInAll: 5 });
  const others = [await actors.actorOf("bob/1"), await actors.actorOf("carol/1")];
  const own = [];
  for (let count = 0; count < 10; count += 1) own.push(await actors.actorOf(`alice/${count}`));
  assert.equal(
    own.map(({ ended }) => ended.aborted),
    [...Array(7).fill(true), false, false, false],
  );
  // All places are taken: the person with the most gives one.
  others.push(await actors.actorOf("dave/1"));
  assert.ok(own[7]?.ended.aborted);
  assert.not.ok(others.some(({ ended }) => ended.aborted));
  actors.close();
  assert.is(clock.pending(), 0);
});

test.run();
