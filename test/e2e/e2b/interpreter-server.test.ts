// @long needs packages of PyPI and npm that nothing else does
// @limit 1800
// @own-cluster
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sandbox } from "@e2b/code-interpreter";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { EXAMPLE, installed } from "./interpreter/installed.ts";

const LIMIT_MS = 120_000;
const test = suite("the code interpreter's server with E2B's SDKs");
const home = mkdtempSync(join(tmpdir(), "tenancy-interpreter-"));
/** For the kernels. */
const temporary = mkdtempSync(join(tmpdir(), "kernels-"));
let python: string;
let url: string;
let server: ChildProcess;
let output = "";
let sandbox: Sandbox;

test.before(async () => {
  python = await installed();
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  server = spawn(python, [join(EXAMPLE, "server.py")], {
    cwd: home,
    env: {
      ...process.env,
      PORT: String(port),
      HOME: home,
      MAX_CONTEXTS: "4",
      PYTHONDONTWRITEBYTECODE: "1",
      TMPDIR: temporary,
    },
  });
  for (const stream of [server.stdout, server.stderr]) stream?.on("data", (chunk) => (output += chunk));
  await waitUntil(async () => (await fetch(`${url}/health`).catch(() => undefined))?.ok, {
    ...{ what: "the server", limitMs: LIMIT_MS, intervalMs: 100, explain: () => output },
  });
  sandbox = new Sandbox({ sandboxId: "any", envdVersion: "0.6.1", sandboxUrl: url, apiKey: "none" });
});

test.after(async () => {
  if (server !== undefined) {
    server.kill("SIGTERM");
    if (server.exitCode === null) await once(server, "exit", { signal: AbortSignal.timeout(LIMIT_MS) });
    assert.is(server.exitCode, 0, output);
  }
  for (const folder of [home, temporary]) rmSync(folder, { recursive: true });
});

test("the Python SDK: output, tables, plots, charts, contexts, variables, time-outs and errors", async () => {
  const words = [join(import.meta.dirname, "interpreter/sdk.py"), url, "any", "token"];
  await runCommand(python, words, { limitMs: LIMIT_MS });
});

test("the JavaScript SDK: output while the code runs, the result, and what it counts", async () => {
  const lines: string[] = [];
  const { text, results, logs, executionCount, error } = await sandbox.runCode(
    "for n in range(3): print(n, flush=True)\n{'a': [1, float('nan')]}",
    { onStdout: ({ line }: { line: string }) => lines.push(line) },
  );
  assert.is(lines.join(""), "0\n1\n2\n");
  assert.is(logs.stdout.join(""), "0\n1\n2\n");
  assert.is(text, "{'a': [1, nan]}");
  assert.equal([results.length, results[0]?.json, error], [1, { a: [1, null] }, undefined]);
  assert.is((await sandbox.runCode("'next'")).executionCount, (executionCount ?? 0) + 1);
});

test("the JavaScript SDK: an error has its name, its value and a traceback without colours", async () => {
  const { error } = await sandbox.runCode("def f():\n    raise ValueError('no')\nf()");
  assert.equal([error?.name, error?.value], ["ValueError", "no"]);
  assert.match(error?.traceback ?? "", /raise ValueError\('no'\)/);
  assert.not.ok(error?.traceback.includes("\u001b"), error?.traceback);
});

test("code whose client has timed out is interrupted, code that waits behind it runs, and variables stay", async () => {
  await sandbox.runCode("kept = 1");
  const late = sandbox.runCode("import time\ntime.sleep(3600)", { timeoutMs: 2000 });
  const behind = sandbox.runCode("kept = kept + 1\nkept");
  const refused = await late.then(
    () => undefined,
    (error: Error) => error,
  );
  assert.is(refused?.constructor.name, "TimeoutError");
  assert.is((await behind).text, "2");
});

test("code that waits and whose client has gone never runs", async () => {
  await sandbox.runCode("ran = []");
  const first = sandbox.runCode("import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)");
  const gone = await sandbox.runCode("ran.append('gone')", { timeoutMs: 1000 }).catch((error: Error) => error);
  writeFileSync(join(home, "go"), "");
  assert.is(gone.constructor.name, "TimeoutError");
  await first;
  rmSync(join(home, "go"));
  assert.is((await sandbox.runCode("ran")).text, "[]");
});

test("contexts have variables and a folder of their own, and are restarted and removed while their code runs", async () => {
  const one = await sandbox.createCodeContext({ cwd: "/usr" });
  const two = await sandbox.createCodeContext();
  assert.equal([one.language, one.cwd, two.cwd], ["python", "/usr", home]);
  await sandbox.runCode("mine = 1", { context: one });
  assert.is((await sandbox.runCode("import os\nos.getcwd()", { context: one })).text, "/usr");
  assert.is((await sandbox.runCode("mine", { context: two })).error?.name, "NameError");

  const running = sandbox.runCode("print('runs', flush=True)\nwhile True: pass", {
    ...{ context: one, timeoutMs: 0 },
    onStdout: () => sandbox.restartCodeContext(one.id),
  });
  assert.is((await running).error?.name, "ContextRestarting");
  assert.is((await sandbox.runCode("mine", { context: one })).error?.name, "NameError");
  const removed = sandbox.runCode("print('runs', flush=True)\nwhile True: pass", {
    ...{ context: one, timeoutMs: 0 },
    onStdout: () => sandbox.removeCodeContext(one.id),
  });
  assert.is((await removed).error?.name, "ContextRemoved");
  const missing = (await sandbox.restartCodeContext(one.id).catch((error: Error) => error)) as Error;
  assert.is(missing.constructor.name, "NotFoundError");
  await sandbox.removeCodeContext(two.id);
});

test("variables of one execution are gone after it, and what they replaced is back", async () => {
  await sandbox.runCode("import os\nos.environ['OLD'] = 'old'");
  const read = "(os.environ.get('OLD'), os.environ.get('NEW'))";
  assert.is((await sandbox.runCode(read, { envs: { OLD: "lent", NEW: "'\n\\" } })).text, "('lent', \"'\\n\\\\\")");
  assert.is((await sandbox.runCode(read)).text, "('old', None)");
});

test("a kernel that ends says so, and the next code has a new one", async () => {
  await sandbox.runCode("lost = 1");
  const { error } = await sandbox.runCode("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)");
  assert.is(error?.name, "KernelEnded");
  assert.is((await sandbox.runCode("lost")).error?.name, "NameError");
});

test("requests that are wrong: a clear text, and the status that the SDKs read", async () => {
  const ask = async (path: string, body: unknown, method = "POST") => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(`${url}${path}`, { method, ...(method === "POST" && { body: text }) });
    return `${answer.status} ${await answer.text()}`;
  };
  assert.is(await ask("/execute", "no JSON"), "400 The body is not JSON");
  assert.is(await ask("/execute", []), "400 The body is not an object");
  assert.is(await ask("/execute", { code: 1 }), "400 code has to be of the type str");
  assert.is(await ask("/execute", {}), "400 code is missing");
  assert.match(await ask("/execute", { code: "1", env_vars: { "A=B": "" } }), /^400 env_vars .* 'A=B' does not$/);
  assert.match(await ask("/execute", { code: "1", context_id: "x", language: "python" }), /^400 Only one of/);
  assert.is(await ask("/contexts", { cwd: "/nowhere" }), "400 Cannot create a context: there is no folder /nowhere");
  assert.is(await ask("/contexts/x/restart", {}), "404 Context x not found");
  assert.is(await ask("/contexts/x", undefined, "DELETE"), "404 Context x not found");
});

test("there are at most MAX_CONTEXTS contexts", async () => {
  const there = (await sandbox.listCodeContexts()).length;
  const made = [];
  for (let count = there; count < 4; count += 1) made.push(await sandbox.createCodeContext());
  const error = await sandbox.createCodeContext().catch((refused: Error) => refused as Error & { id?: string });
  assert.is(error.id, undefined);
  assert.match((error as Error).message, /^429/);
  for (const { id } of made) await sandbox.removeCodeContext(id);
});

test("kernels leave no files among the tenant's", () => {
  assert.equal(
    readdirSync(home).filter((name) => !name.startsWith(".")),
    [],
  );
  assert.not.ok(readdirSync(home).includes(".ipython"));
});

test.run();
