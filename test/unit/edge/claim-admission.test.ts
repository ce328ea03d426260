// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClaimAdmission } from "../../../edge/api/claims/claim-admission.ts";
import { HttpError } from "../../../edge/http/http-error.ts";

const test = suite("claim calls while the API server is slow");

/** An edge whose API server takes so long for a write, and whose clock a test moves. */
function edgeOf({ writeMs = 10 } = {}) {
  let now = 0;
  let refused = 0;
  const admission = createClaimAdmission({
    clock: { now: () => now },
    random: () => 0.99,
    onRefused() {
      refused += 1;
    },
  });
  const ended: (() => void)[] = [];
  return {
    admission,
    refused: () => refused,
    pass(ms: number) {
      now += ms;
    },
    /** Begins so many calls, each of a tenant of its own or all of one; says how many were begun. */
    begin(count: number, tenantId?: string): number {
      let begun = 0;
      for (let index = 0; index < count; index += 1) {
        try {
          ended.push(admission.begin(tenantId ?? `t${ended.length}-${index}`));
          begun += 1;
        } catch (error) {
          assert.instance(error, HttpError);
        }
      }
      return begun;
    },
    end(count: number) {
      for (const end of ended.splice(0, count)) end();
    },
    /** So many windows of half a second with four writes each. */
    async windows(count: number, ms = writeMs) {
      for (let index = 0; index < count; index += 1) {
        for (let write = 0; write < 4; write += 1) {
          await admission.write(async () => {
            now += ms;
          });
        }
        now += Math.max(0, 500 - 4 * ms);
      }
    },
  };
}

test("any number may be under way while writes are fast, and while a burst makes one window slow", async () => {
  const { begin, windows, admission } = edgeOf();
  assert.is(begin(1000), 1000);
  await windows(10);
  await windows(1, 120);
  await windows(1);
  assert.is(admission.limit(), Number.POSITIVE_INFINITY);
  assert.is(begin(1000), 1000);
});

test("slow writes lower the limit from what is under way, to 16 at the least", async () => {
  const { begin, windows, admission, refused } = edgeOf({ writeMs: 120 });
  begin(200);
  await windows(2);
  assert.is(admission.limit(), 140);
  assert.is(begin(50), 0);
  assert.is(refused(), 50);
  await windows(20);
  assert.is(admission.limit(), 16);
});

test("what is under way goes on, and each call that ends makes room", async () => {
  const { begin, end, windows } = edgeOf({ writeMs: 120 });
  begin(200);
  await windows(2);
  end(59);
  assert.is(begin(1), 0);
  end(5);
  assert.is(begin(10), 4);
});

test("the limit grows while writes are fast, and goes once it is far above what is under way", async () => {
  const { begin, end, windows, admission } = edgeOf();
  begin(200);
  await windows(2, 120);
  await windows(3);
  assert.ok(admission.limit() > 180 && admission.limit() < 200, String(admission.limit()));
  end(200);
  await windows(3);
  assert.is(admission.limit(), Number.POSITIVE_INFINITY);
});

test("an API server that answers nothing is slow", async () => {
  const { begin, pass, admission } = edgeOf();
  begin(100);
  for (let write = 0; write < 3; write += 1) void admission.write(() => new Promise(() => undefined));
  for (let window = 0; window < 4; window += 1) {
    pass(500);
    begin(1);
  }
  assert.ok(admission.limit() < 100, String(admission.limit()));
});

test("two slow writes in a window say nothing of the server", async () => {
  const { begin, pass, admission } = edgeOf();
  begin(100);
  for (let window = 0; window < 5; window += 1) {
    for (let write = 0; write < 2; write += 1)
      await admission.write(async () => {
        pass(200);
      });
    pass(100);
  }
  assert.is(admission.limit(), Number.POSITIVE_INFINITY);
});

test("while calls are limited, a tenant with many leaves room for others", async () => {
  const { begin, end, windows } = edgeOf({ writeMs: 120 });
  begin(100, "many");
  await windows(2);
  end(60);
  assert.is(begin(10, "many"), 0);
  assert.is(begin(10, "one"), 10);
});

test("a refusal is a 429 that says when to try again, at random", async () => {
  const { begin, windows, admission } = edgeOf({ writeMs: 120 });
  begin(20);
  await windows(3);
  try {
    admission.begin("t");
    assert.unreachable();
  } catch (error) {
    assert.instance(error, HttpError);
    assert.is((error as HttpError).status, 429);
    assert.is((error as HttpError).headers["retry-after"], "3");
    assert.match((error as HttpError).message, "too many claims are starting");
  }
});

test.run();
