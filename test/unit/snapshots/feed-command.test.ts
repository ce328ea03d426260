import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { ExecFailure } from "../../../operator/snapshots/streams/exec-output.ts";
import { fedScript, feedCommand } from "../../../operator/snapshots/streams/feed-command.ts";
import { END, frames } from "../../../operator/snapshots/streams/frames.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

const failing = fedScript('b="$1"\necho "no room" >&2\n( exit 3 )');
const words = ["sh", "-c", failing, "script", staticBusybox];

test("fedScript: what it says of a failure is read while it runs, and it ends with its input", async () => {
  const child = spawn(staticBusybox, words, { stdio: ["pipe", "pipe", "inherit"], env: {} });
  const ended = once(child, "exit");
  let said = "";
  for await (const chunk of child.stdout) {
    said += chunk;
    if (said.endsWith("exit-status 3\n")) break;
  }
  assert.is(said, "no room\nexit-status 3\n");
  assert.is(child.exitCode, null);
  // More than a pipe holds: it is taken by a script that runs, and refused where that has ended.
  child.stdin.on("error", () => undefined); // Given to the write, too.
  await new Promise<void>((resolve, reject) => {
    child.stdin.write(Buffer.alloc(1024 * 1024), (error) => (error ? reject(error) : resolve()));
  });
  child.stdin.end();
  await ended;
});

test("feedCommand: a failure has the script's own words, while input is still to come", async () => {
  const taken = feedCommand({
    exec: localExec,
    target: { namespace: "n", pod: "p", container: "c", command: [staticBusybox, ...words] },
    what: "do it",
    input: (async function* () {
      yield* frames([Buffer.alloc(8 * 1024 * 1024)]);
      yield END;
    })(),
    signal: new AbortController().signal,
    timeoutMs: 50_000,
  });
  const error = await taken.catch((cause: unknown) => cause);
  assert.instance(error, ExecFailure);
  assert.is((error as ExecFailure).message, "Cannot do it: no room");
  assert.is((error as ExecFailure).exitCode, 3);
});

test("receive: gives frames of any length back, and takes nothing of what follows them", async () => {
  const pieces = [1, 65_535, 65_536, 65_537, 1_048_576, 1_500_000].map((length) => randomBytes(length));
  const script = fedScript('b="$1"\nreceive | "$b" sha256sum >&2\nread -r next && echo "next $next"');
  const child = spawn(staticBusybox, ["sh", "-c", script, "script", staticBusybox], { env: {} });
  child.stdin.write(Buffer.concat([...pieces.flatMap((piece) => [`${piece.length}\n`, piece]).map(Buffer.from), END]));
  child.stdin.end("line\n");
  let said = "";
  for await (const chunk of child.stdout) said += chunk;
  const sum = createHash("sha256").update(Buffer.concat(pieces)).digest("hex");
  assert.is(said, `${sum}  -\nnext line\nexit-status 0\n`);
});

test.run();
