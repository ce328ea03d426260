// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Outcome } from "../../../edge/gateway/adapter.ts";
import { manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { type CronReplica, cronTrigger, startReplica } from "./cron-replica.ts";

const test = suite("cron replicas");
const MINUTE = 60_000;
const LEASE_MS = 10_000;

/** Several replicas on one trigger, a minute before its next occurrence, `00:10`. */
async function stageOf(replicas: number, options: { catchUpSeconds?: number; schedule?: string } = {}) {
  const { schedule = "*/10 * * * *", ...more } = options;
  const clock = manualClock("2026-01-01T00:09:00Z");
  const api = new MemoryApi("tenancy");
  const held = new Map<string, (outcome: Outcome) => void>();
  const trigger = cronTrigger({ schedule, ...more }, "2026-01-01T00:09:00Z");
  const start = (run?: "held") =>
    startReplica({
      clock,
      api,
      trigger,
      leaseMs: LEASE_MS,
      ...(run === "held" && {
        run: ({ id }) => new Promise<Outcome>((resolve) => held.set(`${id} ${held.size}`, resolve)),
      }),
    });
  const all: CronReplica[] = [];
  for (let count = 0; count < replicas; count += 1) all.push(await start());
  const release = () => {
    for (const resolve of held.values()) resolve({ kind: "refused", message: "" });
  };
  return { clock, api, all, start, held, release };
}

const stateOf = (api: MemoryApi) => api.read(triggers, "tick").status?.state;

const firings = (all: readonly CronReplica[]) => all.flatMap(({ fired }) => fired.map(({ id }) => id)).sort();

test("of three replicas one fires each occurrence, at the cost of two writes", async () => {
  const { clock, api, all } = await stageOf(3);
  const [before, calls] = [Number(api.version), api.calls.length];
  await clock.pass(61 * MINUTE);
  const ids = firings(all);
  assert.is(ids.length, 7);
  assert.is(new Set(ids).size, 7);
  assert.is(Number(api.version) - before, 14);
  // Only the first time do the other two try to write as well.
  const tried = api.calls.slice(calls).filter(({ verb }) => verb !== "get");
  assert.ok(tried.length <= 16, `${tried.length} writes were tried`);
  assert.equal(stateOf(api)?.running, {});
  for (const replica of all) await replica.stop();
  assert.is(clock.pending(), 0);
});

test("an occurrence whose process died is run again by another within the lease and a half, under the same id", async () => {
  const { clock, all, start, release } = await stageOf(0);
  const first = await start("held");
  await clock.pass(MINUTE);
  assert.is(first.fired.length, 1);
  const second = await start();
  await clock.pass(30_000);
  assert.is(second.fired.length, 0, "the first one shows signs of life");
  const diedAt = clock.now();
  first.die();
  while (second.fired.length === 0 && clock.now() < diedAt + 3 * LEASE_MS) await clock.pass(500);
  console.log(
    `note: taken over ${(clock.now() - diedAt) / 1000} s after the death, with a lease of ${LEASE_MS / 1000} s`,
  );
  assert.ok(clock.now() - diedAt <= LEASE_MS * 1.75, String(clock.now() - diedAt));
  assert.equal(firings([...all, second]), ["tick-2026-01-01T00:10:00.000Z"]);
  assert.is(second.fired[0]?.id, first.fired[0]?.id);
  await clock.pass(MINUTE);
  assert.is(second.fired.length, 1);
  release();
  await second.stop();
});

test("a process that is the only one runs it again after its restart", async () => {
  const { clock, start } = await stageOf(0);
  const first = await start("held");
  await clock.pass(MINUTE);
  first.die();
  await clock.pass(5000);
  const second = await start();
  await clock.pass(2 * LEASE_MS);
  assert.equal(
    second.fired.map(({ id }) => id),
    ["tick-2026-01-01T00:10:00.000Z"],
  );
  await second.stop();
});

test("with catchUpSeconds 0 an occurrence is run at most once", async () => {
  const { clock, api, start } = await stageOf(0, { catchUpSeconds: 0 });
  const first = await start("held");
  await clock.pass(MINUTE);
  first.die();
  const second = await start();
  await clock.pass(5 * MINUTE);
  assert.equal(second.fired, []);
  assert.is(second.missed(), 1);
  assert.equal(stateOf(api)?.running, {});
  await second.stop();
});

test("a stop waits for what runs; a cut leaves it to another at once", async () => {
  const { clock, start, release } = await stageOf(0);
  const first = await start("held");
  await clock.pass(MINUTE);
  const second = await start();
  await clock.pass(100);
  await first.cut();
  await clock.pass(LEASE_MS / 2);
  assert.is(second.fired.length, 1);
  await second.stop();

  const third = await start("held");
  await clock.pass(10 * MINUTE);
  assert.is(third.fired.length, 1);
  let stopped = false;
  const stopping = third.stop().then(() => {
    stopped = true;
  });
  await clock.pass(MINUTE);
  assert.not(stopped);
  release();
  await clock.pass(0);
  await stopping;
  assert.is(clock.pending(), 0);
});

test("an outage of the API server neither loses an occurrence nor makes another take it over", async () => {
  const { clock, api, start, release } = await stageOf(0);
  const first = await start("held");
  const second = await start("held");
  api.outage = new NetworkError("refused", { requestWasSent: false });
  await clock.pass(MINUTE + 20_000);
  assert.is(first.fired.length + second.fired.length, 0);
  api.outage = undefined;
  await clock.pass(10_000);
  assert.is(first.fired.length + second.fired.length, 1, "late, once");
  api.outage = new NetworkError("refused", { requestWasSent: false });
  await clock.pass(40_000);
  api.outage = undefined;
  await clock.pass(60_000);
  assert.is(first.fired.length + second.fired.length, 1);
  release();
  await clock.pass(0);
  await first.stop();
  await second.stop();
});

test("an outage that lasts longer than the occurrence may be late is a miss that is counted", async () => {
  const { clock, api, all } = await stageOf(1);
  api.outage = new NetworkError("refused", { requestWasSent: false });
  await clock.pass(3 * MINUTE);
  api.outage = undefined;
  await clock.pass(MINUTE);
  assert.is(all[0]?.fired.length, 0);
  assert.is(all[0]?.missed(), 1);
  await all[0]?.stop();
});

test("a run that is slower than the schedule does not hold the next one up", async () => {
  const { clock, start, release } = await stageOf(0, { schedule: "* * * * *" });
  const only = await start("held");
  await clock.pass(5 * MINUTE);
  assert.is(only.fired.length, 5);
  release();
  await only.stop();
});

test("another schedule does not catch up what came before it", async () => {
  const { clock, api, all } = await stageOf(1);
  await clock.pass(2 * MINUTE);
  await all[0]?.stop();
  const edited = await startReplica({
    clock,
    api,
    trigger: cronTrigger({ schedule: "*/11 * * * *", catchUpSeconds: 3600 }, "2026-01-01T00:00:00Z"),
  });
  await clock.pass(5000);
  assert.equal(edited.fired, []);
  await clock.pass(11 * MINUTE);
  assert.equal(
    edited.fired.map(({ id }) => id),
    ["tick-2026-01-01T00:22:00.000Z"],
  );
  await edited.stop();
});

test("what another adapter left in the state is no state of a cron trigger", async () => {
  const { clock, api, start } = await stageOf(0);
  const trigger = cronTrigger({ schedule: "*/10 * * * *" }, "2026-01-01T00:09:00Z");
  api.add(triggers, { ...trigger, status: { state: { offset: 7, running: "yes" } } });
  const only = await start();
  await clock.pass(2 * MINUTE);
  assert.is(only.fired.length, 1);
  await only.stop();
});

for (const [schedule, timezone, message] of [
  ["61 * * * *", "UTC", /^spec\.config\.schedule: cannot parse 61 \* \* \* \* in UTC: Invalid value for minute: 61/],
  ["0 0 30 2 *", "UTC", /^spec\.config\.schedule: 0 0 30 2 \* never matches/],
  ["0 0 * * *", "Mars/Olympus", /^spec\.config\.schedule: cannot parse .* in Mars\/Olympus: .*time zone|timezone/],
  ["0 0 0 * * *", "UTC", /requires exactly 5 parts/],
] as const) {
  test(`${schedule} in ${timezone} is refused with words`, async () => {
    try {
      await startReplica({
        clock: manualClock(),
        api: new MemoryApi("tenancy"),
        trigger: cronTrigger({ schedule, timezone }),
      });
    } catch (error) {
      assert.match((error as Error).message, message);
      return;
    }
    assert.unreachable();
  });
}

test.run();
