// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createDeferred } from "../../../crds/waits.ts";
import { createPlaces, networksOf, type Origin } from "../../../edge/access/places.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { manualClock, turns } from "../manual-clock.ts";

const test = suite("places for work that strangers cause");

function stage(options: { most?: number; mostOfGroup?: number; mostWaiting?: number } = {}) {
  const clock = manualClock();
  const places = createPlaces({
    ...{ most: 2, mostOfGroup: 2, mostWaiting: 100, waitMs: 1000, busy: "busy", clock },
    ...options,
  });
  /** Names of work in the order in which it began. */
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  function take(name: string, [group, one]: Origin, clientGone?: AbortSignal): Promise<number> {
    const work = async () => {
      begun.push(name);
      const end = createDeferred<void>();
      ends.push(end.resolve);
      await end.promise;
    };
    return places.take([group, one], work, { clientGone }).then(
      () => 0,
      (error: unknown) => (error instanceof HttpError ? error.status : -1),
    );
  }
  /** Ends the oldest work, until there is none. */
  async function endAll(): Promise<void> {
    for (let end = ends.shift(); end !== undefined; end = ends.shift()) {
      end();
      await turns();
    }
  }
  return { clock, take, begun, ends, endAll };
}

test("one who causes much work delays another by one place's work, and so does a group of many", async () => {
  const { take, begun, endAll, clock } = stage();
  const all = Array.from({ length: 20 }, (_, at) => take(`a${at}`, ["a", "1"]));
  for (let at = 0; at < 20; at += 1) all.push(take(`b${at}`, ["b", `b${at}`]));
  all.push(take("mine", ["mine", "mine"]), take("other of a", ["a", "2"]));
  await endAll();
  assert.equal(begun.slice(0, 9), ["a0", "a1", "a2", "b0", "mine", "other of a", "b1", "a3", "b2"]);
  assert.equal(await Promise.all(all), Array(42).fill(0));
  assert.is(clock.pending(), 0);
});

test("a group that holds up its work leaves places to others", async () => {
  const { take, begun, ends } = stage({ most: 4, mostOfGroup: 2 });
  for (let at = 0; at < 10; at += 1) void take(`a${at}`, ["a", `${at}`]);
  void take("mine", ["mine", ""]);
  assert.equal(begun, ["a0", "a1", "mine"]);
  ends[2]?.();
  await turns();
  assert.equal(begun, ["a0", "a1", "mine"]);
  ends[0]?.();
  await turns();
  assert.equal(begun, ["a0", "a1", "mine", "a2"]);
});

test("too much that waits is refused, the newest of the group with the most, and so is what waits for long", async () => {
  const { take, begun, clock, ends, endAll } = stage({ most: 1, mostWaiting: 3 });
  const statuses: [string, number][] = [];
  const note = (name: string, group: string) =>
    void take(name, [group, group]).then((status) => statuses.push([name, status]));
  for (let at = 0; at < 6; at += 1) note(`a${at}`, "a");
  await turns();
  assert.equal(statuses, [
    ["a4", 503],
    ["a5", 503],
  ]);
  note("mine", "mine");
  await turns();
  assert.equal(statuses.slice(2), [["a3", 503]]);
  await clock.pass(1000);
  assert.equal(statuses.slice(3).sort(), [
    ["a1", 503],
    ["a2", 503],
    ["mine", 503],
  ]);
  assert.equal([begun, ends.length, clock.pending()], [["a0"], 1, 0]);
  await endAll();
  assert.is(await Promise.race([take("later", ["a", "a"]), turns().then(() => "runs")]), "runs");
});

test("a client that leaves gives up its wait, and work that fails gives its place back", async () => {
  const { take, begun, clock, endAll } = stage({ most: 1 });
  const gone = new AbortController();
  const first = take("first", ["a", "a"]);
  const left = take("left", ["b", "b"], gone.signal);
  gone.abort();
  assert.is(await left, 499);
  assert.is(await take("after", ["b", "b"], gone.signal), 499);
  await endAll();
  assert.is(await first, 0);
  assert.equal([begun, clock.pending()], [["first"], 0]);
  const places = createPlaces({ most: 1, mostOfGroup: 1, mostWaiting: 1, waitMs: 1, busy: "", clock });
  for (let at = 0; at < 3; at += 1) {
    const failed = places.take(["a", "a"], () => Promise.reject(new Error("failed"))).catch(({ message }) => message);
    assert.is(await failed, "failed");
  }
});

test("the networks of an address", () => {
  for (const [address, group, one] of [
    ["192.0.2.7", "192.0.2", "192.0.2.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1", "2001:db8:1:2"],
    ["2001:db8:1:2::", "2001:db8:1", "2001:db8:1:2"],
    ["2001:db8::1", "2001:db8:0", "2001:db8:0:0"],
    ["::1", "0:0:0", "0:0:0:0"],
    ["::", "0:0:0", "0:0:0:0"],
    ["fe80::1:2:3:4:5", "fe80:0:0", "fe80:0:0:1"],
  ])
    assert.equal(networksOf(address), [group, one], address);
  assert.equal(networksOf(undefined), ["", ""]);
});

test.run();
