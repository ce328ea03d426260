// @runtimes bun node
import { test } from "uvu";
import * as assert from "uvu/assert";
import {
  type ListWatchOutcome,
  type ListWatchState,
  nextListWatchState,
} from "../../../crds/client/watch/list-watch-state.ts";

const pageSize = 500;
const empty: ListWatchState = { kind: "empty", pageSize };
const paging: ListWatchState = { kind: "init-page", pageSize, continue: "token" };
const listed: ListWatchState = { kind: "init-listed", resourceVersion: "7" };
const watching: ListWatchState = { kind: "watching", resourceVersion: "7" };

function step(state: ListWatchState, outcome: ListWatchOutcome): [ListWatchState, string] {
  const { state: next, pause } = nextListWatchState(state, outcome, { pageSize });
  return [next, pause];
}

test("nextListWatchState goes from page to page to the watch", () => {
  assert.equal(step(empty, { kind: "page", resourceVersion: "7", continue: "token" }), [paging, "never"]);
  assert.equal(step(paging, { kind: "page", resourceVersion: "7", continue: undefined }), [listed, "never"]);
  assert.equal(step(listed, { kind: "watch-opened" }), [watching, "never"]);
});

test("nextListWatchState keeps a list without pages without pages", () => {
  const whole: ListWatchState = { kind: "empty", pageSize: 0 };
  const page: ListWatchOutcome = { kind: "page", resourceVersion: "7", continue: "token" };
  assert.equal(step(whole, page)[0], { kind: "init-page", pageSize: 0, continue: "token" });
});

test("nextListWatchState resumes a watch at the last resourceVersion seen, at once if it was healthy", () => {
  const resumed: ListWatchState = { kind: "init-listed", resourceVersion: "9" };
  assert.equal(step(watching, { kind: "watch-ended", resourceVersion: "9", healthy: true }), [resumed, "never"]);
  assert.equal(step(watching, { kind: "watch-ended", resourceVersion: "9", healthy: false }), [resumed, "repeated"]);
  assert.equal(step(listed, { kind: "watch-refused" }), [listed, "always"]);
});

test("nextListWatchState lists again when the server no longer knows what came after", () => {
  assert.equal(step(watching, { kind: "watch-expired", healthy: true }), [empty, "never"]);
  assert.equal(step(watching, { kind: "watch-expired", healthy: false }), [empty, "repeated"]);
  assert.equal(step(listed, { kind: "watch-expired", healthy: false }), [empty, "repeated"]);
  assert.equal(step(watching, { kind: "watch-broken" }), [empty, "always"]);
});

test("nextListWatchState asks for the whole list at once when pages expire, and waits before it tries a failed list again", () => {
  assert.equal(step(paging, { kind: "page-expired" }), [{ kind: "empty", pageSize: 0 }, "repeated"]);
  assert.equal(step(paging, { kind: "list-failed" }), [empty, "always"]);
  assert.equal(step({ kind: "empty", pageSize: 0 }, { kind: "list-failed" }), [empty, "always"]);
});

test("nextListWatchState opens no watch before a list is complete", () => {
  assert.throws(
    () => step(paging, { kind: "watch-opened" }),
    "Cannot watch in the state init-page: no list was completed",
  );
});

test.run();
