// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createKeyMatcher, type KeyBinding, type KeyPress } from "../../../edge/dashboard/parts/key-matcher.ts";

const test = suite("dashboard/keys");

const all: KeyBinding[] = ["j", "g c", "c", "Control+k", "j", "Escape"].map((keys, at) => ({
  keys,
  label: String(at),
  act: () => undefined,
}));

function typed(...presses: (string | Partial<KeyPress>)[]): (string | undefined)[] {
  const match = createKeyMatcher();
  let at = 0;
  return presses.map((press) => {
    at += 100;
    const plain = {
      key: "",
      ctrlKey: false,
      metaKey: false,
      altKey: false,
      timeStamp: at,
      repeat: false,
      isTyping: false,
    };
    return match({ ...plain, ...(typeof press === "string" ? { key: press } : press) }, all)?.label;
  });
}

test("of two bindings of a key the newer one counts", () => {
  assert.equal(typed("j"), ["4"]);
});

test("a key after another one is a sequence, unless it comes late", () => {
  assert.equal(typed("g", "c"), [undefined, "1"]);
  assert.equal(typed("c"), ["2"]);
  assert.equal(typed("g", { key: "c", timeStamp: 5000 }), [undefined, "2"]);
  assert.equal(typed("g", "j", "c"), [undefined, "4", "2"]);
});

test("Escape counts once while it is held down, other keys go on", () => {
  assert.equal(typed("Escape", { key: "Escape", repeat: true }, { key: "j", repeat: true }), ["5", undefined, "4"]);
});

test("letters are text in a field, and Control works there", () => {
  assert.equal(typed({ key: "j", isTyping: true }), [undefined]);
  assert.equal(typed({ key: "K", ctrlKey: true, isTyping: true }), ["3"]);
  assert.equal(typed({ key: "k", metaKey: true }), ["3"]);
  assert.equal(typed({ key: "j", altKey: true }), [undefined]);
});

test.run();
