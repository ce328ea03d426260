// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLiveList, type RowKind } from "../../../edge/dashboard/api/live-list.ts";
import { manualClock, turns } from "../manual-clock.ts";

const test = suite("dashboard/live-list");

interface Row {
  name: string;
  spec: string;
  ready: number;
}

const folded: RowKind<Row> = {
  keyOf: ({ name }) => name,
  rowOf: ({ ready }: { ready: number }, row) => row && { ...row, ready },
  isPartial: true,
};

function testList(kind: RowKind<Row>) {
  const clock = manualClock();
  const asked: string[] = [];
  const answers: { resolve(row: Row | undefined): void; reject(error: Error): void }[] = [];
  const failures: unknown[] = [];
  let reads = 0;
  const list = createLiveList<Row>(kind, {
    readOne(key) {
      asked.push(key);
      return new Promise((resolve, reject) => answers.push({ resolve, reject }));
    },
    onRead() {
      reads += 1;
    },
    onFailure: (error) => void failures.push(error),
    clock,
  });
  const seen: string[] = [];
  list.follow({
    put: ({ name, spec, ready }) => void seen.push(`${name} ${spec} ${ready}`),
    remove: (key) => void seen.push(`-${key}`),
    reset: (rows) => void seen.push(`reset ${[...rows].map(({ name }) => name).join(" ")}`),
  });
  let ids = 0;
  const tell = (type: string, object: object) => list.apply([{ id: `x-${++ids}`, type, time: "", object }]);
  const answer = async (row: Row | undefined) => {
    answers.shift()?.resolve(row);
    await turns();
  };
  return {
    ...{ list, clock, asked, answers, tell, answer, failures },
    taken: () => seen.splice(0),
    reads: () => reads,
  };
}

test("messages that show the whole row are the row", () => {
  const { list, tell, taken, asked } = testList({ keyOf: ({ name }) => name });
  list.reset([{ name: "a", spec: "1", ready: 0 }]);
  tell("pod.modified", { name: "a", spec: "2", ready: 1 });
  tell("pod.added", { name: "b", spec: "1", ready: 0 });
  tell("pod.deleted", { name: "a" });
  assert.equal(taken(), ["reset ", "reset a", "a 2 1", "b 1 0", "-a"]);
  assert.equal([[...list.rows.keys()], asked], [["b"], []]);
});

test("messages that show less change the row, which is read again only where more has changed", async () => {
  const { list, tell, answer, taken, asked, reads } = testList(folded);
  list.reset([{ name: "a", spec: "1", ready: 0 }]);
  tell("pool.modified", { name: "a", ready: 1, generation: 1, phase: "Filling" });
  assert.equal(asked, ["a"]);
  await answer({ name: "a", spec: "1", ready: 1 });
  tell("pool.modified", { name: "a", ready: 2, generation: 1, phase: "Filling" });
  tell("pool.modified", { name: "a", ready: 3, generation: 1, phase: "Filling" });
  assert.equal([asked.length, reads()], [1, 1]);
  taken();
  tell("pool.modified", { name: "a", ready: 3, generation: 2, phase: "Filling" });
  await answer({ name: "a", spec: "2", ready: 3 });
  assert.equal(taken(), ["a 1 3", "a 2 3"]);
});

test("a message with nothing new tells of words that are new, and with a reason each may", async () => {
  const { list, tell, answer, asked } = testList(folded);
  list.reset([{ name: "a", spec: "1", ready: 0 }]);
  for (const [ready, reason, reads] of [
    [0, undefined, 1],
    [1, undefined, 1],
    [1, undefined, 2],
    [1, "CrashLooping", 3],
    [0, "CrashLooping", 4],
    [1, undefined, 5],
    [2, undefined, 5],
  ] as const) {
    tell("pool.modified", { name: "a", ready, ...(reason && { reason }) });
    assert.is(asked.length, reads);
    await answer({ name: "a", spec: "1", ready });
  }
});

test("what was read does not take back what messages have shown meanwhile", async () => {
  const { list, tell, answer } = testList(folded);
  list.reset([{ name: "a", spec: "1", ready: 0 }]);
  tell("pool.modified", { name: "a", ready: 1, generation: 2 });
  tell("pool.modified", { name: "a", ready: 2, generation: 2 });
  await answer({ name: "a", spec: "2", ready: 1 });
  assert.equal(list.rows.get("a"), { name: "a", spec: "2", ready: 2 });
});

test("a row that is new is read, once more where it changed meanwhile", async () => {
  const { list, clock, tell, answer, asked } = testList(folded);
  list.reset([]);
  tell("pool.added", { name: "a", ready: 0, generation: 1 });
  tell("pool.modified", { name: "a", ready: 0, generation: 2 });
  assert.equal([asked, list.rows.size], [["a"], 0]);
  await answer({ name: "a", spec: "1", ready: 0 });
  assert.equal(asked, ["a"]);
  await clock.pass(1000);
  assert.equal(asked, ["a", "a"]);
  await answer({ name: "a", spec: "2", ready: 0 });
  await clock.pass(60_000);
  assert.equal([asked.length, list.rows.get("a")?.spec], [2, "2"]);
});

test("one that is deleted while it is read does not come back", async () => {
  const { list, tell, answer } = testList(folded);
  list.reset([]);
  tell("pool.added", { name: "a", ready: 0, generation: 1 });
  tell("pool.deleted", { name: "a", ready: 0, generation: 1 });
  await answer({ name: "a", spec: "1", ready: 0 });
  assert.is(list.rows.size, 0);
  tell("pool.added", { name: "b", ready: 0, generation: 1 });
  await answer(undefined);
  assert.is(list.rows.size, 0);
});

test("a row that cannot be read is read again later, unless the list was read anew", async () => {
  const { list, clock, tell, answers, answer, asked, failures } = testList(folded);
  list.reset([]);
  tell("pool.added", { name: "a", ready: 0, generation: 1 });
  answers.shift()?.reject(new Error("away"));
  await clock.pass(1000);
  assert.equal(asked, ["a", "a"]);
  await answer({ name: "a", spec: "1", ready: 0 });
  assert.is(list.rows.size, 1);
  tell("pool.modified", { name: "a", ready: 0, generation: 2 });
  answers.shift()?.reject(new Error("away"));
  await turns();
  list.reset([{ name: "a", spec: "2", ready: 0 }]);
  await clock.pass(60_000);
  assert.equal([asked.length, failures.length], [3, 2]);
});

test.run();
