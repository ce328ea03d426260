// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { createClaimAdmission } from "../../../edge/api/claims/claim-admission.ts";
import { HttpError } from "../../../edge/http/http-error.ts";

const test = suite("claim calls while the API server is slow");

/** An edge whose API server takes so long for a write, and whose clock a test moves. */
function edgeOf({ writeMs = 10, usualMs = 10 } = {}) {
  let now = 0;
  let refused = 0;
  let made = 0;
  /** Whether the edge has seen how fast the API server is. */
  let isKnown = false;
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
        made += 1;
        try {
          ended.push(admission.begin({ tenantId: tenantId ?? `t${made}`, workloadRef: `w${made}` }));
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
      if (!isKnown) {
        isKnown = true;
        await write(1, usualMs);
      }
      await write(count, ms);
    },
  };

  async function write(count: number, ms: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      for (let writes = 0; writes < 4; writes += 1) {
        await admission.write(async () => {
          now += ms;
        });
      }
      now += Math.max(0, 500 - 4 * ms);
    }
  }
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

test("calls for one claim take one place", async () => {
  const { begin, windows, admission } = edgeOf({ writeMs: 120 });
  begin(15);
  await windows(4);
  const key = { tenantId: "t", workloadRef: "w" };
  const [first, second] = [admission.begin(key), admission.begin(key)];
  assert.is(begin(1), 0);
  first();
  assert.is(begin(1), 0);
  second();
  assert.is(begin(1), 1);
});

test("a write that was refused, or never reached the server, is no fast one", async () => {
  const { begin, windows, admission, pass } = edgeOf({ writeMs: 120 });
  begin(200);
  await windows(2);
  const limit = admission.limit();
  const lost = new NetworkError("refused", { requestWasSent: false });
  for (let window = 0; window < 4; window += 1) {
    for (let write = 0; write < 4; write += 1)
      await admission.write(() => Promise.reject(lost)).catch((error) => assert.is(error, lost));
    pass(500);
  }
  assert.ok(admission.limit() < limit, String(admission.limit()));
  const forbidden = new ApiError("no", { status: 403, reason: "Forbidden" });
  await windows(2);
  const before = admission.limit();
  for (let window = 0; window < 2; window += 1) {
    await admission.write(() => Promise.reject(forbidden)).catch(() => undefined);
    await windows(1);
  }
  assert.ok(admission.limit() <= before, String(admission.limit()));
});

test("an API server that is far away is not slow", async () => {
  const { begin, windows, admission } = edgeOf({ usualMs: 30 });
  begin(100);
  await windows(10, 110);
  assert.is(admission.limit(), Number.POSITIVE_INFINITY);
  await windows(3, 125);
  assert.ok(admission.limit() < 100);
});

test("a time without claims ends the limit, and two bursts far apart make none", async () => {
  const { begin, end, windows, admission, pass } = edgeOf();
  begin(100);
  await windows(1);
  await windows(3, 120);
  assert.ok(admission.limit() < 100);
  end(100);
  pass(60_000);
  assert.is(admission.limit(), Number.POSITIVE_INFINITY);
  begin(100);
  await windows(1, 120);
  pass(3_600_000);
  await windows(1, 120);
  assert.is(admission.limit(), Number.POSITIVE_INFINITY);
});

test("while calls are limited, a tenant with many leaves room for others", async () => {
  const { begin, end, windows } = edgeOf({ writeMs: 120 });
  begin(100, "many");
  await windows(2);
  end(40);
  assert.is(begin(10, "many"), 0);
  assert.is(begin(10, "one"), 10);
});

test("a refusal is a 429 that says when to try again, at random", async () => {
  const { begin, windows, admission } = edgeOf({ writeMs: 120 });
  begin(20);
  await windows(3);
  try {
    admission.begin({ tenantId: "t", workloadRef: "w" });
    assert.unreachable();
  } catch (error) {
    assert.instance(error, HttpError);
    assert.is((error as HttpError).status, 429);
    assert.is((error as HttpError).headers["retry-after"], "3");
    assert.match((error as HttpError).message, "too many claims are starting");
  }
});

test.run();
