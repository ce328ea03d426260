// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createPacedAnswers } from "../../../edge/e2b/envd/paced-answers.ts";
import { isJson } from "../../../edge/http/response.ts";
import { errorOf } from "../../error-of.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("createPacedAnswers");
const LONG = 200_000;

function setUp() {
  const clock = manualClock();
  const answers = createPacedAnswers({ clock });
  let made = 0;
  const answer = (tenantId: string, bytes = LONG, clientGone = new AbortController().signal) =>
    answers.answer({
      ...{ tenantId, clientGone },
      async make() {
        made += 1;
        return Buffer.alloc(bytes, "x");
      },
    });
  return { clock, answer, made: () => made };
}

test("an answer is made once another of its tenant was read, or was left", async () => {
  const { clock, answer, made } = setUp();
  const first = await Promise.all([1, 2, 3, 4].map(() => answer("a")));
  const [fifth, sixth] = [answer("a"), answer("a")];
  await clock.pass(0);
  assert.is(made(), 4);
  assert.is((await (await answer("b")).text()).length, LONG);
  const [one, two] = first;
  assert.equal([one?.headers.get("content-length"), isJson(one?.headers ?? new Headers())], [String(LONG), false]);
  assert.is((await one?.text())?.length, LONG);
  assert.is((await (await fifth).text()).length, LONG);
  await two?.body?.cancel();
  assert.is((await (await sixth).text()).length, LONG);
  assert.is(made(), 7);
});

test("a client that reads nothing for a minute is disconnected, and its place is free", async () => {
  const { clock, answer } = setUp();
  const unread = await Promise.all([1, 2, 3, 4].map(() => answer("a")));
  const refused = errorOf(answer("a"));
  await clock.pass(10_000);
  assert.is(((await refused) as { status: number }).status, 503);
  const reader = unread[0]?.body?.getReader();
  await reader?.read();
  await clock.pass(50_000);
  const [slow, ...others] = unread;
  for (const { body } of others)
    assert.match(String(await errorOf(body?.getReader().read() as Promise<unknown>)), "60 s");
  assert.ok(slow?.body);
  assert.is((await reader?.read())?.done, false);
  assert.is((await (await answer("a")).text()).length, LONG);
});

test("an answer of one piece has a place only until it is made, and one that fails gives it back", async () => {
  const { answer, made } = setUp();
  const short = await Promise.all(Array.from({ length: 30 }, () => answer("a", 10)));
  assert.ok(short.every(({ headers }) => isJson(headers)));
  assert.is(made(), 30);
  const answers = createPacedAnswers({ clock: manualClock() });
  const failing = { tenantId: "a", clientGone: new AbortController().signal, make: () => Promise.reject("failed") };
  for (let count = 0; count < 20; count += 1) assert.is(await errorOf(answers.answer(failing)), "failed");
});

test.run();
