// @limit 2400
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile } from "../cluster-of-file.ts";

const test = suite("logs, exec and destroy on real containers");
let stack: Stack;

// Prints a line a second, after one that names its run.
const SCRIPT = `echo "started as $HOSTNAME"; n=0; while true; do n=$((n+1)); echo "line $n"; sleep 1; done`;

test.before(async () => {
  stack = await startStack(clusterOfFile("e2e-rest"));
  for (const [name, script] of [
    ["talker", SCRIPT],
    // Each run has a file system of its own.
    ["once", "echo before the restart; until [ -e /tmp/end ]; do sleep 0.2; done; exit 4"],
  ]) {
    const spec = {
      image: { ref: "localhost/tenancy-hello:1" },
      resources: { memoryMb: 64 },
      idle: { timeoutSeconds: 120 },
      entrypoint: { cmd: "/bin/sh", args: ["-c", script] },
    };
    const { status, body } = await stack.call("POST", "/workloads", { name, spec });
    assert.is(status, 201, JSON.stringify(body));
  }
});

const claim = async (tenant: string, workload = "talker"): Promise<string> => {
  const { status, body } = await stack.claim(tenant, { workload });
  assert.is(status, 201, JSON.stringify(body));
  return String(body.instanceId);
};
const logs = async (instance: string, query = ""): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${stack.url}/api/v1/instances/${instance}/logs${query}`);
  return { status: response.status, text: await response.text() };
};
const exec = (instance: string, command: string[], more: object = {}) =>
  stack.call("POST", `/instances/${instance}/exec`, { command, ...more });

let ann: string;

test("an instance shows its record", async () => {
  ann = await claim("ann");
  const { status, body } = await stack.call("GET", `/instances/${ann}`);
  assert.is(status, 200);
  assert.is(body.phase, "Running");
  assert.is(body.tenantId, "ann");
  assert.is(body.workloadRef, "talker");
  assert.match(String(body.ip), /^\d+\.\d+\.\d+\.\d+$/);
});

test("exec runs in the container and tells output and exit code", async () => {
  const { status, body } = await exec(ann, ["/bin/sh", "-c", "echo out; echo err >&2; hostname; exit 3"]);
  assert.is(status, 200, JSON.stringify(body));
  assert.equal(body, { stdout: `out\n${ann}\n`, stderr: "err\n", exitCode: 3 });
  assert.equal((await exec(ann, ["true"])).body, { stdout: "", stderr: "", exitCode: 0 });
  assert.equal((await exec(ann, ["printf", "<%s>", "", "a b", "$(id)", "-it", "--"])).body, {
    stdout: "<><a b><$(id)><-it><-->",
    stderr: "",
    exitCode: 0,
  });
});

test("a program that is not there is the caller's mistake", async () => {
  const { status, body } = await exec(ann, ["no-such-program"]);
  console.log(`note: exec of a program that is not there: ${status} ${JSON.stringify(body)}`);
  assert.is(status, 400);
  assert.match(String(body.error), "no-such-program");
});

test("a command that takes too long is a 504 before it ends", async () => {
  const { status, body } = await exec(ann, ["sleep", "30"], { timeoutSeconds: 2 });
  assert.is(status, 504, JSON.stringify(body));
});

test("a large output is cut and says so", async () => {
  const { body } = await exec(ann, ["/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]);
  assert.is(String(body.stdout).length, 1024 * 1024);
  assert.is(body.truncated, true);
});

test("logs show the last lines, and as many as asked for", async () => {
  const whole = await logs(ann);
  assert.is(whole.status, 200, whole.text);
  assert.match(whole.text, new RegExp(`^started as ${ann}\nline 1\n`));
  const two = await logs(ann, "?tail=2");
  assert.match(two.text, /^line \d+\nline \d+\n$/);
});

test("followed logs arrive as they are printed", async () => {
  const gone = new AbortController();
  const response = await fetch(`${stack.url}/api/v1/instances/${ann}/logs?tail=1&follow=true`, { signal: gone.signal });
  const reader = response.body?.getReader();
  let text = "";
  while (text.split("\n").length < 5) {
    const piece = await reader?.read();
    assert.not.ok(piece?.done ?? true, `the stream ended after ${JSON.stringify(text)}`);
    text += new TextDecoder().decode(piece?.value);
  }
  gone.abort();
  assert.match(text, /^line (\d+)\nline \d+\nline \d+\n/);
});

test("a restarted container shows its previous run, one that never restarted says so", async () => {
  const bob = await claim("bob", "once");
  const none = await logs(ann, "?previous=true");
  assert.is(none.status, 404, none.text);
  assert.match(none.text, "has no previous run: its container has never restarted");
  assert.is((await exec(bob, ["touch", "/tmp/end"])).status, 200);
  const text = await waitUntil(
    async () => {
      const previous = await logs(bob, "?previous=true");
      return previous.status === 200 && previous.text;
    },
    { what: "the log of the previous run", limitMs: 120_000, intervalMs: 200 },
  );
  assert.is(text, "before the restart\n");
});

test("exec and calls keep a pod from being idle", async () => {
  const before = String((await stack.call("GET", `/instances/${ann}`)).body.lastActivity);
  await exec(ann, ["sleep", "5"]);
  const lastActivity = async () => String((await stack.call("GET", `/instances/${ann}`)).body.lastActivity);
  await waitUntil(async () => (await lastActivity()) > before, { what: `a use after ${before}`, limitMs: 60_000 });
  const reported = await stack.call("POST", `/instances/${ann}/activity`);
  assert.equal(reported.body, { status: "active", instance: ann });
});

test("pods of others are out of reach", async () => {
  await stack.kubectl("run", "stranger", "--image=localhost/tenancy-hello:1", "--image-pull-policy=Never");
  for (const status of [
    (await stack.call("GET", "/instances/stranger")).status,
    (await logs("stranger")).status,
    (await exec("stranger", ["true"])).status,
    (await stack.call("POST", "/instances/stranger/destroy")).status,
  ]) {
    assert.is(status, 404);
  }
  assert.match(await stack.kubectl("get", "pod", "stranger", "-o", "name"), "stranger");
  await stack.kubectl("delete", "pod", "stranger", "--grace-period=0", "--force");
});

test("destroy takes the pod at once and leaves the claim's phase; release still works", async () => {
  const cat = await claim("cat");
  const from = Date.now();
  const { status, body } = await stack.call("POST", `/instances/${cat}/destroy`);
  assert.is(status, 200, JSON.stringify(body));
  assert.equal(body, { status: "destroyed", instance: cat });
  console.log(`note: destroy answered after ${Date.now() - from} ms`);
  assert.not.match(await stack.kubectl("get", "pods", "-o", "name"), new RegExp(cat));
  assert.is((await exec(cat, ["true"])).status, 404);
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const { claims } = (await stack.call("GET", "/tenants/cat")).body as unknown as {
    claims: { phase: string; endpoint?: object }[];
  };
  assert.equal(
    claims.map(({ phase, endpoint }) => [phase, endpoint]),
    [["Active", undefined]],
  );
  assert.is((await stack.release("cat", "talker")).status, 200);
});

test("the server stops clean", async () => {
  assert.is(await stack.interrupt(), 0, stack.output());
});

test.after(async () => {
  await stack?.interrupt().catch(() => undefined);
});

test.run();
