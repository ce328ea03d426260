import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLog } from "../../../crds/log.ts";
import { createScreen } from "../../../scripts/start/screen.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("screen of npm start");

function open(options: { json?: boolean; file?: string; hasColors?: boolean } = {}) {
  const { hasColors = false, ...rest } = options;
  const clock = manualClock();
  const printed: string[] = [];
  const failed: string[] = [];
  const screen = createScreen({
    ...{ ...rest, root: "/tree", clock },
    out: { write: (text) => void printed.push(text), hasColors: () => hasColors },
    err: { write: (text) => void failed.push(text) },
  });
  const edge = createLog({
    ...{ program: "edge", level: "debug" },
    destination: { write: (line) => screen.line("edge", line.trimEnd()) },
  });
  /** What was printed since the last call, without the time of day. */
  const lines = () =>
    printed
      .splice(0)
      .join("")
      .split("\n")
      .filter(Boolean)
      .map((line) => line.replace(/^\d\d:\d\d:\d\d (WARN|INFO|ERROR|DEBUG) +edge +/, ""));
  return { screen, clock, printed, failed, edge, lines };
}

const missing = Object.assign(new Error("Secret ux-missing does not exist"), { expected: true });
const network = Object.assign(new Error("no answer", { cause: new Error("connect ECONNREFUSED") }), { expected: true });
const entries: [fields: object, message: string, line: string][] = [
  [
    { trigger: "ux-signed", error: missing },
    "webhook secret not read",
    "trigger ux-signed: webhook secret not read: Secret ux-missing does not exist",
  ],
  [
    { controller: "claim", key: "tenancy/claim-bob", retryAfterMs: 812, error: network },
    "reconcile failed",
    "claim tenancy/claim-bob: reconcile failed: no answer: connect ECONNREFUSED",
  ],
  [{ problem: "no kubectl" }, "logs are unavailable", "logs are unavailable: no kubectl"],
  [{ pod: "inst-bob", keys: ["a", "b"] }, "edited pod repaired", "pod inst-bob: edited pod repaired (keys a, b)"],
  [
    { tenantId: "bob", workloadRef: "app", usedAt: "2026-01-01" },
    "archive deleted",
    "tenant bob, workload app: archive deleted (used at 2026-01-01)",
  ],
  [{ error: "a\n  b" }, "answer could not be sent", "answer could not be sent: a b"],
  [{ trigger: "t", event: "t-1", error: missing }, "event failed", `trigger t: event failed: ${missing.message}`],
  [{}, "cluster cache synced", "cluster cache synced"],
  [{ delayMs: 0, graceMs: 35_000 }, "edge stopping", "edge stopping (grace ms 35000)"],
];
for (const [fields, message, line] of entries) {
  test(`an entry is one line in words: ${line}`, () => {
    const { edge, lines } = open();
    edge.warn(fields, message);
    assert.equal(lines(), [line]);
  });
}

test("a line has time, level, program and object, in colour on a terminal only", () => {
  for (const hasColors of [false, true]) {
    const { edge, printed } = open({ hasColors });
    edge.error({ claim: "claim-bob" }, "files could not be saved");
    const [line = ""] = printed;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
    const plain = line.replaceAll(/\x1b\[\d+m/g, "");
    assert.match(plain, /^\d\d:\d\d:\d\d ERROR edge {5}claim claim-bob: files could not be saved\n$/);
    assert.is(line !== plain, hasColors);
  }
});

test("an error that the program did not expect shows its place in the code", () => {
  const { screen, lines } = open();
  const stack = [
    "TypeError: x is undefined",
    "    at node:internal/process:1:2",
    "    at f (/tree/node_modules/a/b.js:3:4)",
    "    at async run (file:///tree/edge/main.ts:12:7)",
  ].join("\n");
  const entry = { level: 40, time: "2026-01-01T00:00:00.000Z", program: "edge", msg: "request failed" };
  screen.line("edge", JSON.stringify({ ...entry, error: { name: "TypeError", message: "x is undefined", stack } }));
  assert.equal(lines(), ["request failed: x is undefined (at edge/main.ts:12)"]);
});

test("a problem that repeats is printed once, then with its count at growing intervals, until it ends", async () => {
  const { edge, lines, clock } = open();
  const said = "trigger ux-signed: webhook secret not read: Secret ux-missing does not exist";
  const repeat = () => edge.warn({ trigger: "ux-signed", error: missing }, "webhook secret not read");
  repeat();
  assert.equal(lines(), [said]);
  for (let time = 0; time < 52; time += 1) {
    await clock.pass(40_000);
    repeat();
  }
  assert.equal(lines(), [
    `${said} (2 times in 40 s)`,
    `${said} (5 times in 3 min)`,
    `${said} (11 times in 7 min)`,
    `${said} (23 times in 15 min)`,
    `${said} (47 times in 31 min)`,
  ]);
  await clock.pass(3_600_000);
  assert.equal(lines(), [`${said} (53 times in 35 min)`]);
  await clock.pass(3_600_000);
  assert.is(clock.pending(), 0);
  repeat();
  assert.equal(lines(), [said]);
});

test("problems of two objects are told apart, the same one with other durations is not", async () => {
  const { edge, lines, clock } = open();
  for (const [pod, ms] of [
    ["a", 10],
    ["a", 12],
    ["b", 12],
  ])
    edge.warn({ pod, error: `no answer after ${ms} ms` }, "activity not written");
  assert.equal(lines(), [
    "pod a: activity not written: no answer after 10 ms",
    "pod b: activity not written: no answer after 12 ms",
  ]);
  await clock.pass(60_000);
  assert.equal(lines(), ["pod a: activity not written: no answer after 12 ms (2 times in 1 s)"]);
});

test("entries that are no problem are all printed", () => {
  const { edge, lines, clock } = open();
  for (const path of ["/a", "/b"]) edge.debug({ path }, "request");
  for (const trigger of ["t", "t"]) edge.info({ trigger }, "trigger adapter started");
  const started = "trigger t: trigger adapter started";
  assert.equal(lines(), ["request (path /a)", "request (path /b)", started, started]);
  assert.is(clock.pending(), 0);
});

test("what was not printed yet is printed when the screen is closed", () => {
  const { screen, edge, lines, clock } = open();
  edge.warn({}, "x");
  edge.warn({}, "x");
  lines();
  screen.close();
  assert.equal(lines(), ["x (2 times in 1 s)"]);
  assert.is(clock.pending(), 0);
});

test("what is not an entry is printed as it is, and what npm start says goes where it belongs", () => {
  const { screen, printed, failed } = open();
  screen.say("-> cluster");
  screen.warn("edge ended: exit code 1");
  screen.fail("no such context");
  for (const line of ['{"msg":1}', "{broken", "    at crash (/x.ts:1:2)", ""]) screen.line("edge", line);
  assert.is(printed[0], "-> cluster\n");
  assert.match(printed[1] ?? "", /^\S+ WARN {2}edge ended: exit code 1\n$/);
  assert.is(printed.length, 2);
  assert.equal(failed, ["no such context\n", '{"msg":1}\n', "{broken\n", "    at crash (/x.ts:1:2)\n"]);
});

test("--json prints JSON alone, each repeat too; a file gets it whatever is printed", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-screen-"));
  try {
    for (const json of [true, false]) {
      const file = join(folder, `${json}.log`);
      const { screen, edge, printed, failed } = open({ json, file });
      screen.say("\nready in 1 s");
      screen.fail("no");
      screen.warn("edge ended");
      edge.warn({ pod: "a" }, "x");
      edge.warn({ pod: "a" }, "x");
      screen.line("edge", "a stack");
      screen.close();
      const written = readFileSync(file, "utf8");
      assert.equal(
        written
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line))
          .map(({ level, program, msg, time }) => [level, program, msg, Number.isNaN(Date.parse(time))]),
        [
          [30, "start", "ready in 1 s", false],
          [50, "start", "no", false],
          [40, "start", "edge ended", false],
          [40, "edge", "x", false],
          [40, "edge", "x", false],
          [50, "edge", "a stack", false],
        ],
      );
      if (json) assert.equal([printed.join(""), failed], [written, []]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a file that cannot be opened is an error", () => {
  assert.throws(() => open({ file: "/no/such/folder/log" }), /ENOENT/);
});

test.run();
