// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLeaveGuard } from "../../../edge/dashboard/leave-guard.ts";

const test = suite("dashboard/leave guard");

test("a page with something typed is left only when that is meant", async () => {
  const guard = createLeaveGuard();
  let gone = 0;
  const go = (): void => {
    gone += 1;
  };
  guard.leave(go);
  assert.is(gone, 1, "nothing is guarded");
  let answer: Promise<boolean> | undefined;
  const end = guard.set(() => answer);
  guard.leave(go);
  assert.is(gone, 2, "nothing was typed");
  for (const isMeant of [false, true]) {
    answer = Promise.resolve(isMeant);
    guard.leave(go);
    assert.is(gone, 2, "it is asked first");
    await answer;
  }
  assert.is(gone, 3);
  const endNext = guard.set(() => Promise.resolve(false));
  end();
  guard.leave(go);
  assert.is(gone, 3, "what was set later stays");
  endNext();
  guard.leave(go);
  assert.is(gone, 4);
});

test.run();
