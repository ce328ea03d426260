// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createSharedCall } from "../../../edge/cluster/shared-call.ts";

const test = suite("createSharedCall");

/** Work that a test carries on with, in the order in which it was begun. */
function steps() {
  const begun: { looks: () => void; resolve: (value: string) => void; reject: (error: Error) => void }[] = [];
  const call = createSharedCall(
    (looks) => new Promise<string>((resolve, reject) => void begun.push({ looks, resolve, reject })),
  );
  return { begun, call };
}

test("calls before the work looks share it, and later ones the next, which waits for its end", async () => {
  const { begun, call } = steps();
  const early = [call(), call()];
  await settled();
  const shared = call();
  begun[0]?.looks();
  const late = [call(), call()];
  await settled();
  assert.is(begun.length, 1);
  begun[0]?.resolve("first");
  assert.equal(await Promise.all([...early, shared]), ["first", "first", "first"]);
  await settled();
  assert.is(begun.length, 2);
  const joined = call();
  begun[1]?.looks();
  begun[1]?.resolve("second");
  assert.equal(await Promise.all([...late, joined]), ["second", "second", "second"]);
  await settled();
  assert.is(begun.length, 2);
});

test("all who share work hear of its failure, and the next call begins anew", async () => {
  const { begun, call } = steps();
  const failing = [call(), call()].map((one) => one.catch((error: Error) => error.message));
  await settled();
  begun[0]?.reject(new Error("gone"));
  assert.equal(await Promise.all(failing), ["gone", "gone"]);
  const next = call();
  await settled();
  begun[1]?.resolve("there");
  assert.is(await next, "there");
});

test("work that looks twice lets the call after the next in no sooner", async () => {
  const { begun, call } = steps();
  const first = call();
  await settled();
  begun[0]?.looks();
  const second = call();
  begun[0]?.looks();
  const third = call();
  begun[0]?.resolve("first");
  assert.is(await first, "first");
  await settled();
  begun[1]?.resolve("second");
  assert.equal(await Promise.all([second, third]), ["second", "second"]);
  assert.is(begun.length, 2);
});

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test.run();
