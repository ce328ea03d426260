// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createStore, keyOf } from "../../../crds/client/watch/store.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";

interface Thing extends KubernetesObject {
  color?: string;
  tags?: string[];
}

function thing(
  name: string,
  resourceVersion: number,
  rest: { uid?: string; color?: string; tags?: string[] } = {},
): Thing {
  const { uid = `uid-${name}`, ...fields } = rest;
  return { metadata: { name, namespace: "a", uid, resourceVersion: String(resourceVersion) }, ...fields };
}

function thingStore() {
  return createStore<Thing, "color" | "tag">({ indexes: { color: ({ color }) => color, tag: ({ tags }) => tags } });
}

function names(things: Iterable<Thing>): string[] {
  return [...things].map(({ metadata }) => metadata.name);
}

test("createStore finds objects by key and by every value of an index", () => {
  const store = thingStore();
  store.put(thing("x", 1, { color: "red", tags: ["p", "q"] }));
  store.put(thing("y", 2, { color: "red" }));
  assert.is(store.get("a/x")?.metadata.name, "x");
  assert.is(store.get("b/x"), undefined);
  assert.equal(names(store.by("color", "red")), ["x", "y"]);
  assert.equal(names(store.by("tag", "q")), ["x"]);
  assert.is(store.by("color", "red").size, 2);
  assert.equal(names(store.by("color", "blue")), []);
  assert.is(store.by("color", "blue").size, 0);
});

test("createStore keeps an object's place in an index while its value stays the same", () => {
  const store = thingStore();
  for (const name of ["x", "y", "z"]) store.put(thing(name, 1, { color: "red" }));
  store.put(thing("x", 2, { color: "red" }));
  assert.equal(names(store.by("color", "red")), ["x", "y", "z"]);
  store.put(thing("y", 3, { color: "blue" }));
  store.put(thing("y", 4, { color: "red" }));
  assert.equal(names(store.by("color", "red")), ["x", "z", "y"]);
});

test("Store.put refuses the same and an older state", () => {
  const store = thingStore();
  assert.is(store.put(thing("x", 99, { color: "red" })), true);
  assert.is(store.put(thing("x", 99, { color: "blue" })), false);
  assert.is(store.put(thing("x", 10, { color: "blue" })), false);
  assert.is(store.put(thing("x", 100, { color: "green" })), true);
  assert.is(store.get("a/x")?.color, "green");
});

test("Store.put takes a successor of the name and refuses the late state of its predecessor", () => {
  const store = thingStore();
  store.put(thing("x", 5, { uid: "first" }));
  assert.is(store.put(thing("x", 9, { uid: "second" })), true);
  assert.is(store.put(thing("x", 7, { uid: "first" })), false);
  assert.is(store.get("a/x")?.metadata.uid, "second");
});

test("Store.put takes everything where resourceVersions have no order", () => {
  const store = createStore<Thing>({ indexes: {} });
  const opaque = (resourceVersion: string): Thing => ({ metadata: { name: "x", uid: "u", resourceVersion } });
  for (const version of ["b", "a", "c"]) assert.is(store.put(opaque(version)), true);
  assert.is(store.put(opaque("c")), false);
});

test("Store.put never brings back an object whose deletion was seen", () => {
  const store = thingStore();
  store.put(thing("x", 5));
  store.remove(thing("x", 8));
  assert.is(store.put(thing("x", 7)), false, "the late answer to a write");
  assert.is(store.get("a/x"), undefined);
  assert.is(store.put(thing("x", 9, { uid: "successor" })), true);
});

test("Store.put takes back an object that had only left the selector", () => {
  const store = thingStore();
  store.put(thing("x", 5));
  store.remove(thing("x", 8));
  assert.is(store.put(thing("x", 12)), true);
});

test("Store.put remembers a deletion that came before it ever held the object", () => {
  const store = thingStore();
  assert.is(store.remove(thing("x", 8)), undefined);
  assert.is(store.put(thing("x", 5)), false);
});

test("Store.remove leaves a successor of the name and a newer state alone", () => {
  const store = thingStore();
  store.put(thing("x", 9, { uid: "second", color: "red" }));
  assert.is(store.remove(thing("x", 7, { uid: "first" })), undefined);
  assert.is(store.remove(thing("x", 8, { uid: "second" })), undefined);
  assert.equal(names(store.by("color", "red")), ["x"]);
  assert.is(store.remove(thing("x", 10, { uid: "second" }))?.color, "red");
  assert.is(store.by("color", "red").size, 0);
});

test("createStore remembers a bounded number of deletions", () => {
  const store = createStore<Thing>({ indexes: {} });
  for (let index = 0; index < 10_000; index++) store.remove(thing(`x${index}`, 5));
  assert.is(store.put(thing("x9999", 4)), false);
  assert.is(store.put(thing("x0", 4)), true);
});

const command = fc.record({
  action: fc.constantFrom("put", "put", "put", "remove"),
  name: fc.constantFrom("x", "y", "z", "w"),
  uid: fc.constantFrom("1", "2"),
  version: fc.nat({ max: 12 }),
  color: fc.option(fc.constantFrom("red", "blue", ""), { nil: undefined }),
  tags: fc.option(fc.array(fc.constantFrom("p", "q", "r"), { maxLength: 3 }), { nil: undefined }),
});

test("createStore's indexes always hold what a scan over its values finds", () => {
  const property = fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
    const store = thingStore();
    for (const { action, name, uid, version, color, tags } of commands) {
      const object = thing(name, version, {
        uid: `${name}-${uid}`,
        ...(color !== undefined && { color }),
        ...(tags && { tags }),
      });
      const before = store.get(keyOf(object));
      const accepted = action === "put" ? store.put(object) : store.remove(object) !== undefined;
      const after = store.get(keyOf(object));
      assert.is(after, accepted ? (action === "put" ? object : undefined) : before);
    }
    const held = [...store.values()];
    assert.is(store.size, held.length);
    for (const color of ["red", "blue", ""]) {
      const found = held.filter((object) => object.color === color);
      assert.equal(new Set(store.by("color", color)), new Set(found));
      assert.is(store.by("color", color).size, found.length);
    }
    for (const tag of ["p", "q", "r"]) {
      const found = held.filter((object) => object.tags?.includes(tag));
      assert.equal(new Set(store.by("tag", tag)), new Set(found));
      assert.is(store.by("tag", tag).size, found.length);
    }
  });
  fc.assert(property, { numRuns: 500 });
});

/** What the API server did to one object: states in order, and at the end perhaps its deletion. */
const lives = fc.record({ states: fc.integer({ min: 1, max: 6 }), deleted: fc.boolean() });

test("createStore ends at the last state however answers to writes and watch events interleave", () => {
  const property = fc.property(lives, fc.infiniteStream(fc.nat()), ({ states, deleted }, random) => {
    const store = thingStore();
    const versions = Array.from({ length: states }, (_, index) => index + 1);
    // Watch events come in order; each state may also come at any time as the answer to the write that made it.
    const events: (() => unknown)[] = versions.map((version) => () => store.put(thing("x", version, { color: "red" })));
    if (deleted) events.push(() => store.remove(thing("x", states + 1)));
    const answers = versions.map((version) => () => store.put(thing("x", version, { color: "red" })));
    while (events.length + answers.length > 0) {
      const pick = random.next().value;
      const fromEvents = answers.length === 0 || (events.length > 0 && pick % 2 === 0);
      const action = fromEvents ? events.shift() : answers.splice(pick % answers.length, 1)[0];
      action?.();
    }
    assert.is(store.get("a/x")?.metadata.resourceVersion, deleted ? undefined : String(states));
    assert.is(store.by("color", "red").size, deleted ? 0 : 1);
  });
  fc.assert(property, { numRuns: 500 });
});

test.run();
