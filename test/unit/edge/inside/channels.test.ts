// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../../crds/client/api-error.ts";
import type { Exec, ExecOptions } from "../../../../crds/client/exec/exec.ts";
import { ExecError } from "../../../../crds/client/exec/exec-outcome.ts";
import { type Channels, createChannels } from "../../../../edge/inside/channels.ts";
import { frameType } from "../../../../edge/inside/frames.ts";
import { errorOf } from "../../../error-of.ts";
import { type ManualClock, manualClock, turns } from "../../manual-clock.ts";
import { type FakeInside, fakeInside } from "./fake-inside.ts";

const test = suite("createChannels");

const POD = { name: "pod-1", uid: "uid-1" };

interface Started {
  readonly inside: FakeInside;
  readonly options: ExecOptions;
}

function create(): { channels: Channels; clock: ManualClock; started: Started[] } {
  const clock = manualClock();
  const started: Started[] = [];
  const exec: Exec = (options) => {
    const inside = fakeInside();
    started.push({ inside, options });
    const { stdin, stdout, signal, timeoutMs } = options;
    if (stdin === undefined || stdout === undefined || signal === undefined) throw new Error("streams are missing");
    return inside.run({ stdin, stdout, signal, timeoutMs });
  };
  return {
    channels: createChannels({ exec, namespace: "tenants", isPresent: async () => true, clock }),
    clock,
    started,
  };
}

function insideOf(started: readonly Started[], index: number): FakeInside {
  const found = started[index];
  if (found === undefined) throw new Error(`there is no exec ${index}`);
  return found.inside;
}

test("concurrent callers share one exec of the program in the workload's container", async () => {
  const { channels, started } = create();
  const opening = Array.from({ length: 100 }, () => channels.channelTo(POD));
  assert.is(started.length, 1);
  insideOf(started, 0).hello();
  const opened = await Promise.all(opening);
  assert.is(new Set([...opened, await channels.channelTo(POD)]).size, 1);
  const options = started[0]?.options;
  assert.equal([options?.namespace, options?.pod, options?.container], ["tenants", "pod-1", "workload"]);
  assert.equal(options?.command, ["/.tenancy/inside", "connect"]);
  assert.is(started.length, 1);
});

test("pods of one name have a channel each", async () => {
  const { channels, started } = create();
  const opening = [channels.channelTo(POD), channels.channelTo({ name: "pod-1", uid: "uid-2" })];
  insideOf(started, 0).hello();
  insideOf(started, 1).hello();
  const [first, second] = await Promise.all(opening);
  assert.is.not(first, second);
});

test("an abort of one caller leaves the others their channel", async () => {
  const { channels, started } = create();
  const gone = new AbortController();
  const left = errorOf(channels.channelTo(POD, gone.signal));
  const other = channels.channelTo(POD, new AbortController().signal);
  gone.abort(new Error("gone"));
  assert.is(((await left) as Error).message, "gone");
  insideOf(started, 0).hello();
  assert.is((await other).openCalls(), 0);
  assert.is(started.length, 1);
});

test("when all callers have gone, the opening ends, and the next caller opens another", async () => {
  const { channels, started, clock } = create();
  const gone = new AbortController();
  const callers = [channels.channelTo(POD, gone.signal), channels.channelTo(POD, gone.signal)].map(errorOf);
  gone.abort("gone");
  assert.equal(await Promise.all(callers), ["gone", "gone"]);
  assert.is(insideOf(started, 0).signal()?.aborted, true);
  assert.is(clock.pending(), 0);
  const next = channels.channelTo(POD);
  assert.is(started.length, 2);
  insideOf(started, 1).hello();
  await next;
});

test("a failed opening is thrown by all its callers, and not by the next", async () => {
  const { channels, started, clock } = create();
  const callers = [channels.channelTo(POD), channels.channelTo(POD)].map(errorOf);
  const gone = new ExecError("gone", { reason: "PodGone" });
  insideOf(started, 0).end(gone);
  assert.equal(await Promise.all(callers), [gone, gone]);
  assert.is(clock.pending(), 0);
  const next = channels.channelTo(POD);
  insideOf(started, 1).hello();
  await next;
});

test("a channel closes 60 s after its last call has ended", async () => {
  const { channels, started, clock } = create();
  const opening = channels.channelTo(POD);
  const inside = insideOf(started, 0);
  inside.hello();
  const channel = await opening;
  const long = channel.call("start", {});
  const short = channel.call("stat", {});
  await inside.sent(frameType.call, 2);
  inside.send(frameType.answer, 1, {});
  inside.send(frameType.answer, 2, {});
  inside.send(frameType.end, 2);
  await Promise.all([long, short]);
  for (let seconds = 0; seconds < 300; seconds += 15) {
    await clock.pass(15_000);
    inside.send(frameType.ping, 0);
  }
  assert.is(inside.signal()?.aborted, false);
  inside.send(frameType.end, 1);
  await clock.pass(45_000);
  inside.send(frameType.ping, 0);
  await clock.pass(14_999);
  assert.is(inside.signal()?.aborted, false);
  await clock.pass(1);
  assert.is(inside.signal()?.aborted, true);
  await channel.ended;
  assert.is(clock.pending(), 0);
  const next = channels.channelTo(POD);
  assert.is(started.length, 2);
  insideOf(started, 1).hello();
  assert.is.not(await next, channel);
});

test("a channel that is never used closes, and each caller restarts the 60 s", async () => {
  const { channels, started, clock } = create();
  const opening = channels.channelTo(POD);
  const inside = insideOf(started, 0);
  inside.hello();
  const channel = await opening;
  await clock.pass(30_000);
  inside.send(frameType.ping, 0);
  assert.is(await channels.channelTo(POD), channel);
  await clock.pass(59_999);
  assert.is(inside.signal()?.aborted, false);
  await clock.pass(1);
  assert.is(inside.signal()?.aborted, true);
  assert.is(clock.pending(), 0);
});

test("a channel that breaks is forgotten, and the next call opens another", async () => {
  const { channels, started, clock } = create();
  const opening = channels.channelTo(POD);
  insideOf(started, 0).hello();
  const channel = await opening;
  const call = errorOf(channel.call("stat", {}));
  insideOf(started, 0).end(new NetworkError("cut", { requestWasSent: true }));
  assert.is(((await call) as Error).message, "cut");
  assert.is(clock.pending(), 0);
  const next = channels.channelTo(POD);
  assert.is(started.length, 2);
  insideOf(started, 1).hello();
  await next;
});

test("a channel that breaks while it opens leaves no timer", async () => {
  const { channels, started, clock } = create();
  const opening = channels.channelTo(POD);
  insideOf(started, 0).hello();
  insideOf(started, 0).write(Buffer.alloc(9, 255));
  const channel = await opening;
  assert.ok((await errorOf(channel.call("stat", {}))) instanceof NetworkError);
  await turns();
  assert.is(clock.pending(), 0);
  const next = channels.channelTo(POD);
  insideOf(started, 1).hello();
  await next;
});

test("close ends all execs and opens no more", async () => {
  const { channels, started, clock } = create();
  const open = channels.channelTo(POD);
  insideOf(started, 0).hello();
  const call = errorOf((await open).call("stat", {}));
  const opening = errorOf(channels.channelTo({ name: "pod-2", uid: "uid-2" }));
  await channels.close();
  assert.ok((await call) instanceof NetworkError);
  assert.match(String(await opening), /stopping/);
  assert.equal(
    started.map(({ inside }) => inside.signal()?.aborted),
    [true, true],
  );
  assert.match(String(await errorOf(channels.channelTo(POD))), /stopping/);
  await turns();
  assert.is(clock.pending(), 0);
});

test.run();
