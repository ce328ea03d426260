// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { cronTrigger, startReplica } from "./cron-replica.ts";

const test = suite("cron firings, expected and seen");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

interface Case {
  name: string;
  config: TriggerSpec["config"];
  start: string;
  createdAt?: string;
  /** What happens; the default lets the hours pass. */
  story?: (clock: ManualClock) => Promise<void>;
  hours?: number;
  /** Occurrences, with the time of the firing where it is another. */
  expected: string[];
}

const berlin = { timezone: "Europe/Berlin" };
const cases: Case[] = [
  {
    name: "every minute",
    config: { schedule: "* * * * *" },
    start: "2026-01-01T00:00:30Z",
    story: (clock) => clock.pass(3 * MINUTE),
    expected: ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z"],
  },
  {
    name: "UTC where no time zone is given",
    config: { schedule: "0 9 * * *" },
    start: "2026-07-01T00:00:00Z",
    hours: 24,
    expected: ["2026-07-01T09:00:00Z"],
  },
  {
    name: "a time zone with an offset of half an hour",
    config: { schedule: "0 9 * * *", timezone: "Asia/Kolkata" },
    start: "2026-07-01T00:00:00Z",
    hours: 24,
    expected: ["2026-07-01T03:30:00Z"],
  },
  {
    name: "spring: a time of the day that is skipped fires right after the gap",
    config: { schedule: "30 2 * * *", ...berlin },
    start: "2026-03-28T00:00:00Z",
    hours: 72,
    expected: ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
  },
  {
    name: "spring: every half hour goes on by the clock",
    config: { schedule: "*/30 * * * *", ...berlin },
    start: "2026-03-29T00:10:00Z",
    hours: 2,
    expected: ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"],
  },
  {
    name: "autumn: a time of the day that comes twice fires once",
    config: { schedule: "30 2 * * *", ...berlin },
    start: "2026-10-24T12:00:00Z",
    hours: 48,
    expected: ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
  },
  {
    name: "autumn: every hour fires in both hours",
    config: { schedule: "0 * * * *", ...berlin },
    start: "2026-10-24T23:30:00Z",
    hours: 4,
    expected: ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"],
  },
  {
    name: "a change of half an hour (Lord Howe)",
    config: { schedule: "15 2 * * *", timezone: "Australia/Lord_Howe" },
    start: "2026-10-03T00:00:00Z",
    hours: 48,
    expected: ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
  },
  {
    name: "weekdays only",
    config: { schedule: "0 9 * * 1-5" },
    start: "2026-01-02T00:00:00Z",
    hours: 96,
    expected: ["2026-01-02T09:00:00Z", "2026-01-05T09:00:00Z"],
  },
  {
    name: "a clock that is set back fires nothing twice, and waits until it shows new times",
    config: { schedule: "*/10 * * * *" },
    start: "2026-01-01T00:05:00Z",
    async story(clock) {
      await clock.pass(16 * MINUTE);
      clock.set(clock.now() - 15 * MINUTE);
      await clock.pass(30 * MINUTE);
    },
    expected: ["2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z", "2026-01-01T00:30:00Z"],
  },
  {
    name: "a clock that is set forward: what was missed by less than the limit fires late, once",
    config: { schedule: "*/10 * * * *", catchUpSeconds: 300 },
    start: "2026-01-01T00:05:00Z",
    async story(clock) {
      clock.set(Date.parse("2026-01-01T00:33:00Z"));
      await clock.pass(MINUTE);
      await clock.pass(8 * MINUTE);
    },
    expected: ["2026-01-01T00:30:00Z at 2026-01-01T00:33:30Z", "2026-01-01T00:40:00Z"],
  },
  {
    name: "a clock that is set forward by more than the limit: nothing is fired late",
    config: { schedule: "*/10 * * * *" },
    start: "2026-01-01T00:05:00Z",
    async story(clock) {
      clock.set(Date.parse("2026-01-01T05:35:00Z"));
      await clock.pass(10 * MINUTE);
    },
    expected: ["2026-01-01T05:40:00Z"],
  },
  {
    name: "a new trigger fires nothing of the time before it",
    config: { schedule: "*/10 * * * *", catchUpSeconds: 3600 },
    start: "2026-01-01T00:10:20Z",
    createdAt: "2026-01-01T00:10:15Z",
    story: (clock) => clock.pass(5 * MINUTE),
    expected: [],
  },
  {
    name: "an edge that starts late fires what came since the trigger was made",
    config: { schedule: "*/10 * * * *", catchUpSeconds: 3600 },
    start: "2026-01-01T00:35:00Z",
    createdAt: "2026-01-01T00:15:00Z",
    story: (clock) => clock.pass(MINUTE),
    expected: ["2026-01-01T00:20:00Z at 2026-01-01T00:35:00Z", "2026-01-01T00:30:00Z at 2026-01-01T00:35:00Z"],
  },
  {
    name: "of many that were missed, the last sixteen",
    config: { schedule: "* * * * *", catchUpSeconds: 7200 },
    start: "2026-01-01T01:00:30Z",
    createdAt: "2026-01-01T00:00:00Z",
    async story(clock) {
      for (let turn = 0; turn < 20; turn += 1) await clock.pass(0);
    },
    expected: Array.from({ length: 16 }, (_, at) => `2026-01-01T00:${45 + at}:00Z at 2026-01-01T01:00:30Z`).map(
      (line) => line.replace("T00:60:", "T01:00:"),
    ),
  },
  {
    name: "with catchUpSeconds 0 nothing fires late",
    config: { schedule: "*/10 * * * *", catchUpSeconds: 0 },
    start: "2026-01-01T00:10:30Z",
    story: (clock) => clock.pass(10 * MINUTE),
    expected: ["2026-01-01T00:20:00Z"],
  },
];

for (const { name, config, start, createdAt, story, hours, expected } of cases) {
  test(name, async () => {
    const clock = manualClock(start);
    const api = new MemoryApi("tenancy");
    const replica = await startReplica({ clock, api, trigger: cronTrigger(config, createdAt ?? start) });
    await (story?.(clock) ?? clock.pass((hours ?? 1) * HOUR));
    await replica.stop();
    const short = (time: string) => time.replace(".000Z", "Z");
    const seen = replica.fired.map(({ id, at }) => {
      const occurrence = short(id.replace(/^tick-/, ""));
      return short(at) === occurrence ? occurrence : `${occurrence} at ${short(at)}`;
    });
    console.log(`note: ${name}: ${seen.length} of ${expected.length} expected`);
    assert.equal(seen, expected);
    assert.is(clock.pending(), 0, "a timer is left");
  });
}

test.run();
