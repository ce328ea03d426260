import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createOutputText } from "../../../edge/dashboard/inside/output-text.ts";
import {
  connectShell,
  type Refusal,
  type ShellOptions,
  type ShellState,
} from "../../../edge/dashboard/inside/shell-connection.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("dashboard/shell-connection");
type Listener = Parameters<ShellOptions["open"]>[1];

function open({ pid, refusal }: { pid?: number; refusal?: Refusal } = {}) {
  const clock = manualClock();
  const sockets: {
    pid: number | undefined;
    listener: Listener;
    sent: Uint8Array[];
    isClosed: boolean;
    bufferedAmount: number;
  }[] = [];
  const states: ShellState[] = [];
  const begun: number[] = [];
  const notShown: (() => void)[] = [];
  const connection = connectShell(pid, {
    open(of, listener) {
      const socket = {
        ...{ pid: of, listener, sent: [] as Uint8Array[], isClosed: false, bufferedAmount: 0 },
        send(message: Uint8Array) {
          socket.sent.push(message);
          socket.bufferedAmount += message.length;
        },
        close() {
          socket.isClosed = true;
        },
      };
      sockets.push(socket);
      return socket;
    },
    explain: async () => refusal ?? { isPassing: true, message: "not there" },
    size: () => ({ cols: 80, rows: 24 }),
    onStart: ({ stdoutBytes }) => begun.push(stdoutBytes),
    onOutput: (_, shown) => notShown.push(shown),
    onState: (state) => states.push(state),
    clock,
  });
  const last = () => sockets.at(-1) as (typeof sockets)[number];
  return {
    ...{ clock, sockets, states, begun, notShown, connection, last },
    state: () => states.at(-1),
    start(of = 7, stdoutBytes = 0) {
      last().listener.onOpen();
      last().listener.onText(JSON.stringify({ type: "process", process: { pid: of, stdoutBytes } }));
    },
    /** Bytes of input that were sent. */
    input: () =>
      last()
        .sent.filter(([number]) => number === 0)
        .reduce((sum, message) => sum + message.length - 1, 0),
  };
}

test("a lost socket leads to the same process, later each time, for five minutes", async () => {
  const { clock, sockets, state, start, last, begun } = open();
  start(7);
  assert.equal(state(), { is: "open", pid: 7 });
  last().listener.onClose(1006, "");
  assert.equal(state(), { is: "lost", unsentBytes: 0 });
  await clock.pass(250);
  assert.equal(
    sockets.map(({ pid }) => pid),
    [undefined, 7],
  );
  start(7, 100);
  assert.equal(begun, [0, 100]);
  last().listener.onClose(1012, "the server is stopping");
  for (let second = 0; second < 400 && state()?.is === "lost"; second += 1) {
    await clock.pass(1000);
    if (!last().isClosed) last().listener.onClose(1006, "");
  }
  assert.match(JSON.stringify(state()), /"failed".*five minutes/);
  assert.ok(sockets.length < 40, `${sockets.length} sockets`);
});

test("input is sent no faster than the socket sends it on, in messages of 64 KiB, and not with a gap", async () => {
  const { clock, connection, start, last, input, state } = open();
  connection.input(new Uint8Array(10));
  start();
  assert.is(input(), 0);
  connection.input(new Uint8Array(1024 * 1024));
  assert.is(input(), 256 * 1024);
  assert.ok(last().sent.every(({ length }) => length <= 64 * 1024 + 1));
  await clock.pass(20);
  assert.is(input(), 256 * 1024);
  last().bufferedAmount = 0;
  await clock.pass(20);
  assert.is(input(), 512 * 1024);
  last().listener.onClose(1006, "");
  assert.equal(state(), { is: "lost", unsentBytes: 512 * 1024 });
  await clock.pass(250);
  start();
  assert.is(input(), 0);
});

test("output that is not shown in time is left out, and the input goes on", async () => {
  const { clock, sockets, connection, start, last, notShown, state, input } = open();
  start();
  const output = new Uint8Array(32 * 1024 + 1).fill(1);
  for (let at = 0; at < 33; at += 1) last().listener.onBytes(output);
  assert.equal(state(), { is: "behind" });
  assert.is(sockets[0]?.isClosed, true);
  sockets[0]?.listener.onBytes(output);
  assert.is(notShown.length, 33);
  connection.input(Uint8Array.of(3));
  for (const shown of notShown) shown();
  await clock.pass(500);
  assert.is(last().pid, 7);
  start();
  assert.is(input(), 1);
});

test("the end of the process, and closings that are final, end it", async () => {
  const ended = open();
  ended.start();
  ended.last().listener.onText(JSON.stringify({ type: "process", process: { pid: 7, exitCode: 3 } }));
  ended.last().listener.onClose(1000, "the process has ended");
  assert.equal(ended.state(), { is: "ended", process: { pid: 7, exitCode: 3 } });
  for (const [code, reason, words] of [
    [4410, "instance has gone", "instance has gone"],
    [1008, "", "does not read its input"],
  ] as const) {
    const failed = open();
    failed.start();
    failed.last().listener.onClose(code, reason);
    assert.match(JSON.stringify(failed.state()), words);
  }
  const refused = open({ refusal: { isPassing: false, message: "no tools" } });
  refused.last().listener.onClose(1006, "");
  await refused.clock.pass(0);
  assert.equal(refused.state(), { is: "failed", message: "no tools" });
  const closed = open();
  closed.connection.close();
  closed.last().listener.onClose(1006, "");
  await closed.clock.pass(60_000);
  assert.is(closed.sockets.length, 1);
});

test("output becomes text across its pieces, with few marks on a character", () => {
  const textOf = createOutputText();
  const bytes = Buffer.from(`ä${"\u0301".repeat(20)}b\u0301`);
  const text = [bytes.subarray(0, 1), bytes.subarray(1, 11), bytes.subarray(11)].map(textOf).join("");
  assert.is(text, `ä${"\u0301".repeat(8)}b\u0301`);
});

test.run();
