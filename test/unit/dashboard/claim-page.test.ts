import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { releaseOutcome } from "../../../edge/dashboard/claims/release-outcome.ts";
import { remedyOf } from "../../../edge/dashboard/claims/remedies.ts";
import { claimMs, claimSegments } from "../../../edge/dashboard/claims/segments.ts";
import { sizeWords } from "../../../edge/dashboard/parts/size-words.ts";

const test = suite("dashboard/claim page");

const T0 = Date.parse("2026-01-02T03:04:05.000Z");
const steps = (...all: [step: string, ms: number][]) =>
  all.map(([step, ms]) => ({ step, at: new Date(T0 + ms).toISOString() }));
const createdAt = "2026-01-02T03:04:05Z";
const told = (of: Parameters<typeof claimSegments>[0]) =>
  claimSegments(of).map(({ name, fromMs, toMs, kind, note }) => [
    name,
    fromMs - T0,
    toMs === undefined ? undefined : toMs - T0,
    kind,
    note,
  ]);

test("claimSegments shows what each stretch went into, and the source", () => {
  const timeline = steps(["Requested", 100], ["Seen", 106], ["Bound", 114], ["Active", 115]);
  assert.equal(told({ phase: "Active", createdAt, source: "pool", timeline }), [
    ["Request to operator", 100, 106, "wait", undefined],
    ["Finding a pod", 106, 114, "wait", "source pool"],
    ["Reporting ready", 114, 115, "ok", undefined],
  ]);
  assert.is(claimMs({ timeline }), 15);
});

test("claimSegments leaves a gap for what another operator saw, and makes no number up", () => {
  const timeline = steps(["Requested", 0], ["Started", 900], ["Ready", 950], ["Active", 951]);
  const [gap, ready] = told({ phase: "Active", createdAt, timeline });
  assert.equal(gap, ["Starting program", 0, 900, "unknown", "another operator recorded the earlier steps"]);
  assert.equal(ready, ["Waiting for health check", 900, 950, "wait", undefined]);
});

test("claimSegments shows clocks that differ, and no time below zero", () => {
  const timeline = steps(["Seen", 90], ["Bound", 95], ["Requested", 100], ["Active", 120]);
  assert.equal(told({ phase: "Active", createdAt, timeline })[0], [
    "Request to operator",
    90,
    90,
    "wait",
    "the clocks of edge and operator differ by at least 10 ms",
  ]);
});

test("claimSegments of a claim that was made with kubectl begins at its creation, to the second", () => {
  const timeline = steps(["Seen", 400], ["Bound", 410], ["Active", 411]);
  const [first] = told({ phase: "Active", createdAt, timeline });
  assert.equal(first, [
    "Request to operator",
    0,
    400,
    "unknown",
    "created without the API: creation time known to the second",
  ]);
  assert.is(claimMs({ timeline }), undefined);
});

test("claimSegments of a claim that got another pod begin where that start began", () => {
  const day = 24 * 3_600_000;
  const timeline = steps(["Seen", 3 * day], ["Bound", 3 * day + 8], ["Active", 3 * day + 9]);
  assert.equal(told({ phase: "Active", createdAt, requestedAt: createdAt, source: "pool", timeline }), [
    ["Request to operator", 3 * day, 3 * day, "unknown", "it got a replacement pod"],
    ["Finding a pod", 3 * day, 3 * day + 8, "wait", "source pool"],
    ["Reporting ready", 3 * day + 8, 3 * day + 9, "ok", undefined],
  ]);
});

test("claimSegments grow while a claim is Pending, and are none where nothing is known", () => {
  assert.equal(told({ phase: "Pending", createdAt }), [
    ["Pending", 0, undefined, "wait", "start time known to the second"],
  ]);
  assert.equal(told({ phase: "Active", createdAt }), []);
  // Of the start before this one.
  assert.equal(
    told({ phase: "Pending", createdAt, timeline: steps(["Requested", 5], ["Seen", 6], ["Error", 30]) }),
    [],
  );
  assert.equal(told({ phase: "Pending", createdAt, timeline: steps(["Requested", 5]) }), [
    ["Now", 5, undefined, "wait", undefined],
  ]);
  assert.equal(
    told({ phase: "Error", createdAt, timeline: steps(["Requested", 5], ["Seen", 6], ["Error", 30]) }).at(-1),
    ["Until failure", 6, 30, "bad", undefined],
  );
});

test("releaseOutcome says what of the pod is saved, and what becomes of the present version", () => {
  const claim = { tenantId: "alice", resumedFrom: "aa" };
  const outcome = (of: Partial<Parameters<typeof releaseOutcome>[0]>) =>
    Object.values(releaseOutcome({ claim, savedDirs: ["/data"], present: { sha256: "aa" }, ...of }));
  const replaced = "The session started from it, so the new version replaces it.";
  const older = "It stays as an older version; the three newest older versions are kept.";
  const saved = "/data of alice is saved as a new version, then the pod is deleted.";
  assert.equal(outcome({}), [true, saved, replaced]);
  assert.equal(outcome({ present: { sha256: "bb" } }), [true, saved, older]);
  assert.equal(outcome({ claim: { tenantId: "alice" }, present: {} }), [true, saved, older]);
  assert.equal(outcome({ claim: { tenantId: "alice", source: "pool+data" } }), [true, saved, replaced]);
  assert.match(outcome({ savedDirs: ["/a", "/b"] })[1] as string, "/a, /b of alice are saved");
  // The pod is older than the directories that its workload names now.
  const nothing = "this pod saves no files. The pod of alice is deleted.";
  assert.equal(outcome({ savedDirs: [] }), [false, nothing, "It stays unchanged."]);
  assert.equal(outcome({ savedDirs: undefined }), [false, "there is no pod.", "It stays unchanged."]);
});

test("each reason of a claim in docs/reference/reasons.md has a remedy", () => {
  const text = readFileSync(join(import.meta.dirname, "../../../docs/reference/reasons.md"), "utf8");
  const part = text.slice(text.indexOf("## Claims that wait"), text.indexOf("## Workloads"));
  const reasons = [...part.matchAll(/^\| `([A-Z]\w+)` \|/gm)].map(([, reason = ""]) => reason);
  assert.ok(reasons.length > 15);
  assert.equal(
    reasons.filter((reason) => remedyOf(reason) === undefined),
    [],
  );
  assert.is(remedyOf(undefined), undefined);
});

test("sizeWords has few digits", () => {
  assert.equal([0, 999, 1000, 3_100_000, 123_456_789, 5e15].map(sizeWords), [
    "0 B",
    "999 B",
    "1.0 kB",
    "3.1 MB",
    "123 MB",
    "5000 TB",
  ]);
});

test.run();
