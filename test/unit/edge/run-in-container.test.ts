// @runtimes bun node deno
import { createHash, randomBytes } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { createKubectl } from "../../../edge/kubectl/kubectl.ts";
import { type ContainerRun, runInContainer } from "../../../edge/kubectl/run-in-container.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { type FakeKubectl, fakeKubectl } from "./fake-kubectl.ts";

const test = suite("the input of a command in a container");
let fake: FakeKubectl;

test.before.each(() => {
  fake = fakeKubectl();
});
test.after.each(async () => {
  for (const pid of fake.pids()) await eventually(() => !isAlive(pid));
  fake.remove();
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function run(
  script: string,
  input: AsyncIterable<Uint8Array>,
  { clock = systemClock, clientGone }: { clock?: Clock; clientGone?: AbortSignal } = {},
): Promise<ContainerRun> {
  const kubectl = createKubectl({ namespace: "n", command: fake.command });
  const command = ["bash", "-c", script];
  const request = { pod: "p", container: "c", command, timeoutMs: 60_000, maxBytes: 1000, input };
  return runInContainer(request, { kubectl, clock, clientGone });
}

async function* pieces(content: Buffer, bytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < content.length; at += bytes) yield content.subarray(at, at + bytes);
}

/** Goes on as long as it is asked for more. */
async function* endless(onEnd = (): void => undefined): AsyncGenerator<Buffer> {
  try {
    for (;;) {
      yield Buffer.alloc(10_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    onEnd();
  }
}

test("arrives whole and ends", async () => {
  const content = randomBytes(5_000_000);
  const ended = await run("sha256sum", pieces(content, 70_000));
  const stdout = `${createHash("sha256").update(content).digest("hex")}  -\n`;
  assert.equal(ended, { kind: "ended", exitCode: 0, stdout, stderr: "", isCut: false });
  assert.equal(fake.calls()[0]?.slice(2, 7), ["exec", "p", "--stdin", "--container", "c"]);
});

test("is not sent any further once the command has answered, and ends then", async () => {
  let isEnded = false;
  const input = endless(() => {
    isEnded = true;
  });
  const ended = await run("echo full; cat > /dev/null", input);
  assert.equal([ended.kind, ended.kind === "ended" && ended.stdout], ["ended", "full\n"]);
  await eventually(() => isEnded);
});

test("may be left unread by a command that ends", async () => {
  const ended = await run("exit 3", endless());
  assert.equal([ended.kind, ended.kind === "ended" && ended.exitCode], ["ended", 3]);
});

test("ends the command where it fails itself, and is not taken for whole", async () => {
  async function* failing(): AsyncGenerator<Buffer> {
    yield Buffer.from("half");
    throw new Error("it broke");
  }
  const failed = await run("cat > /dev/null; sleep 60", failing()).catch((error: Error) => error.message);
  assert.is(failed, "it broke");
});

test("does not hold up the end of the time, nor a client that goes", async () => {
  async function* silent(): AsyncGenerator<Buffer> {
    await new Promise(() => undefined);
    yield Buffer.alloc(0);
  }
  const clock = manualClock();
  const late = run("cat > /dev/null", silent(), { clock });
  await eventually(() => fake.pids().length === 1);
  await clock.pass(60_000);
  assert.equal(await late, { kind: "late" });
  const gone = new AbortController();
  const left = run("cat > /dev/null", silent(), { clientGone: gone.signal });
  await eventually(() => fake.pids().length === 2);
  gone.abort();
  assert.equal(await left, { kind: "client gone" });
});

test.run();
