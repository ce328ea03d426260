import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { PreSave } from "../../../crds/defaults.ts";
import { runPreSave } from "../../../operator/snapshots/pods/pre-save.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

const pod = { namespace: "here", pod: "this", container: "machine", busybox: staticBusybox };
const signal = new AbortController().signal;

function run(command: string[], options: Partial<PreSave> & { exec?: Exec; signal?: AbortSignal } = {}) {
  const { exec = localExec, timeoutSeconds = 60, onError = "Fail" } = options;
  return runPreSave({ exec, pod, preSave: { command, timeoutSeconds, onError }, signal: options.signal ?? signal });
}

const shell = (script: string) => [staticBusybox, "sh", "-c", script];
const failure = (running: Promise<void>) => running.then(() => "none", String);

test("runPreSave runs the command as it is written", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-pre-save-"));
  await run([staticBusybox, "touch", join(folder, "a b;c")]);
  assert.ok(existsSync(join(folder, "a b;c")));
  rmSync(folder, { recursive: true });
});

test("runPreSave fails with the last line that the command says", async () => {
  const script = "echo first >&2; echo 'database is locked' >&2; exit 5";
  assert.is(await failure(run(shell(script))), "ExecFailure: filesystem.preSave ended with 5: database is locked");
  assert.is(await failure(run(shell("exit 3"))), "ExecFailure: filesystem.preSave ended with 3");
  const printed = "echo 'database is locked'; sleep 0.1; echo first >&2; sleep 0.1; echo 'is locked yet'; exit 5";
  assert.is(await failure(run(shell(printed))), "ExecFailure: filesystem.preSave ended with 5: is locked yet");
  assert.match(await failure(run(["/no/such/program"])), /ended with 127: .*No such file or directory/);
});

test("runPreSave ends a command in the pod when its time is over", async () => {
  const late = run(shell("exec sleep 3600"), { timeoutSeconds: 1 });
  assert.match(await failure(late), /^ExecFailure: filesystem.preSave did not end within 1 s/);
});

test("runPreSave fails with a command whose time is over, also where that ends well when it is asked to", async () => {
  const script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
  const late = await failure(run(shell(script), { timeoutSeconds: 1 }));
  assert.match(late, /^ExecFailure: filesystem.preSave did not end within 1 s/);
  assert.is(await failure(run(shell("exit 124"))), "ExecFailure: filesystem.preSave ended with 124");
});

test("runPreSave is ended with the save", async () => {
  const stop = new AbortController();
  const reason = new Error("given up");
  const exec: Exec = ({ signal: given }) =>
    new Promise((_, reject) => given?.addEventListener("abort", () => reject(given.reason)));
  const running = run(["sync"], { exec, signal: stop.signal });
  stop.abort(reason);
  assert.is(await running.catch((error: unknown) => error), reason);
});

test.run();
