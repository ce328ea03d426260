import { suite } from "uvu";
import * as assert from "uvu/assert";
import { CallError } from "../../../edge/dashboard/api/call.ts";
import { followFolder, type WatchEvent, type WatchState } from "../../../edge/dashboard/inside/folder-watch.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("dashboard/folder-watch");

/** A watch of which the test says what comes. */
function follow() {
  const clock = manualClock();
  const states: WatchState[] = [];
  const opened: {
    signal: AbortSignal;
    come(events: readonly WatchEvent[]): void;
    end(error?: Error): void;
  }[] = [];
  let changes = 0;
  const watch = followFolder({
    async *open(signal) {
      const waiting: (readonly WatchEvent[] | "end" | Error)[] = [];
      let wake = (): void => undefined;
      const put = (one: (typeof waiting)[number]) => {
        waiting.push(one);
        wake();
      };
      opened.push({ signal, come: put, end: (error) => put(error ?? "end") });
      signal.addEventListener("abort", () => put(signal.reason as Error));
      for (;;) {
        const one = waiting.shift();
        if (one === "end") return;
        if (one instanceof Error) throw one;
        if (one !== undefined) yield one;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    },
    onChange: () => {
      changes += 1;
    },
    onState: (state) => states.push(state),
    clock,
  });
  return {
    ...{ clock, watch, opened, states },
    last: () => opened.at(-1) as (typeof opened)[number],
    state: () => states.at(-1)?.is,
    changes: () => changes,
  };
}

const refusal = (status: number, retryAfterMs?: number) =>
  new CallError(`status ${status}`, { status, ...(retryAfterMs !== undefined && { retryAfterMs }) });

test("the list is read again once the watch has begun, and after each change and overflow", async () => {
  const { clock, last, state, changes } = follow();
  await clock.pass(0);
  last().come([]);
  await clock.pass(0);
  assert.is(changes(), 0);
  last().come([{ type: "watching" }]);
  await clock.pass(0);
  assert.equal([state(), changes()], ["live", 1]);
  last().come([{ type: "created" }, { type: "changed" }]);
  last().come([{ type: "overflow" }]);
  await clock.pass(0);
  assert.equal([state(), changes()], ["live", 3]);
});

test("a lost watch begins again, later each time, also if each breaks soon after it has begun", async () => {
  const { clock, opened, last, state, watch } = follow();
  for (const pauseMs of [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]) {
    const { length } = opened;
    last().come([{ type: "watching" }]);
    await clock.pass(0);
    last().end(...(length % 2 === 0 ? [] : [refusal(503)]));
    await clock.pass(0);
    assert.is(state(), "lost");
    await clock.pass(pauseMs - 1);
    assert.is(opened.length, length);
    await clock.pass(1);
    assert.is(opened.length, length + 1);
  }
  last().come([{ type: "watching" }]);
  for (let at = 0; at < 3; at += 1) {
    await clock.pass(15_000);
    last().come([]);
  }
  await clock.pass(0);
  assert.is(state(), "live");
  last().end(refusal(429, 30_000));
  const { length } = opened;
  await clock.pass(29_999);
  assert.is(opened.length, length);
  watch.retry();
  await clock.pass(0);
  assert.is(opened.length, length + 1);
});

test("a watch that is silent is lost: the browser does not report a dead connection", async () => {
  const { clock, opened, last, state } = follow();
  last().come([{ type: "watching" }]);
  await clock.pass(39_999);
  assert.is(state(), "live");
  await clock.pass(1);
  assert.is(state(), "lost");
  assert.ok(opened[0]?.signal.aborted);
});

test("a refused watch, and one that has ended, say why and begin again only when asked", async () => {
  for (const end of ["refused", "ended"] as const) {
    const { clock, opened, last, states, watch } = follow();
    if (end === "refused") last().end(refusal(409));
    else last().come([{ type: "watching" }, { type: "removed" }, { type: "ended", message: "the folder was removed" }]);
    await clock.pass(3_600_000);
    assert.equal(states.at(-1), {
      is: "refused",
      message: end === "refused" ? "status 409" : "the folder was removed",
    });
    assert.is(opened.length, 1);
    watch.retry();
    assert.is(opened.length, 2);
  }
});

test("after a 401 response it waits for the login, and once closed it does nothing", async () => {
  const { clock, opened, last, state, watch } = follow();
  last().end(refusal(401));
  await clock.pass(3_600_000);
  assert.equal([state(), opened.length], ["lost", 1]);
  watch.retry();
  assert.is(opened.length, 2);
  watch.close();
  assert.ok(last().signal.aborted);
  await clock.pass(3_600_000);
  assert.equal([opened.length, clock.pending()], [2, 0]);
});

test.run();
