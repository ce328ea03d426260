// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { type FakeKubectl, fakeKubectl } from "./fake-kubectl.ts";
import { type Answer, type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("logs and exec");
let kubectl: FakeKubectl;
let edge: TestEdge;

test.before.each(() => {
  kubectl = fakeKubectl();
  edge = testEdge({ kubectl: kubectl.command, clock: systemClock });
  edge.cluster.addInstance("inst-a");
});
test.after.each(async () => {
  // The use of a pod would be written a minute later, by the system's clock.
  await edge.activity.close();
  kubectl.remove();
});

const exec = (
  command: unknown,
  { pod = "inst-a", signal, ...more }: { pod?: string; signal?: AbortSignal; timeoutSeconds?: number } = {},
) => {
  edge.cluster.addInstance(pod);
  const body = { command, ...more };
  return edge.call(`POST /api/v1/instances/${pod}/exec`, signal === undefined ? { body } : { body, signal });
};
const logs = (query = "", pod = "inst-a"): Promise<Answer> => {
  edge.cluster.addInstance(pod);
  return edge.call(`GET /api/v1/instances/${pod}/logs${query}`);
};

test("exec answers output and exit code, and passes every argument on as it is", async () => {
  const odd = ["", "a b", "$(id)", "`id`", "; id", "--namespace=x", "-it", "ü\n\t'\"\\", "--"];
  const answer = await exec(["bash", "-c", 'printf "<%s>" "$@"; echo oh >&2; exit 3', "sh", ...odd]);
  assert.is(answer.status, 200, answer.text);
  assert.equal(answer.json, { stdout: odd.map((one) => `<${one}>`).join(""), stderr: "oh\n", exitCode: 3 });
  const [call = []] = kubectl.calls();
  assert.equal(call.slice(0, 8), ["--namespace", "tenancy", "exec", "inst-a", "--container", "workload", "--", "bash"]);
});

test("a command's own failure is told apart from kubectl's", async () => {
  assert.equal((await exec(["true"])).json, { stdout: "", stderr: "", exitCode: 0 });
  assert.equal((await exec(["bash", "-c", "exit 1"])).json, { stdout: "", stderr: "", exitCode: 1 });
  const said = "command terminated with exit code 7";
  assert.equal((await exec(["bash", "-c", `echo '${said}' >&2; exit 7`])).json, {
    stdout: "",
    stderr: `${said}\n`,
    exitCode: 7,
  });
  const failed = await exec(["ls"], { pod: "gone" });
  assert.is(failed.status, 404);
});

test("each failure of kubectl is a status with words that help, and nothing internal", async () => {
  const cases: [string, number, RegExp][] = [
    ["gone", 404, /instance "gone" does not exist/],
    ["starting", 409, /instance "starting" is not running: .*waiting to start: ContainerCreating/],
    ["ended", 409, /instance "ended" is not running: container not found/],
    ["ending", 409, /instance "ending" is not running: its container has ended$/],
    ["stopped", 409, /instance "stopped" is not running: its container has ended$/],
    ["no-node", 503, /the node of instance "no-node" cannot be reached$/],
    ["no-answer", 503, /the node of instance "no-answer" cannot be reached$/],
    ["no-kubelet", 503, /the node of instance "no-kubelet" cannot be reached$/],
    ["broken", 503, /the connection to instance "broken" was lost; a command may have run$/],
    ["not-yet", 409, /instance "not-yet" is not running: pod does not exist$/],
    ["no-cluster", 503, /the cluster cannot be reached now; try again shortly$/],
    ["forbidden", 500, /allow its account to create pods\/exec and to get pods\/log$/],
    [
      "no-program",
      400,
      /body\.command: cannot be started in the instance: "nope": executable file not found in \$PATH;/,
    ],
    ["strange", 500, /internal error; the server's log has details under request id/],
  ];
  for (const [pod, status, message] of cases) {
    const answer = await exec(["ls"], { pod });
    assert.is(answer.status, status, `${pod} ${answer.text}`);
    assert.match(answer.error ?? "", message);
  }
  const logged = JSON.stringify(edge.log.filter(({ level }) => level === "error"));
  assert.match(logged, "error: something new");
  assert.match(logged, "cannot create resource");
});

test("exec refuses bodies that name no program", async () => {
  for (const [command, message] of [
    [[], /body\.command: must name a program/],
    [[""], /body\.command: must start with the name of a program/],
    ["ls", /body\.command: must be a/],
    [["ls", 1], /body\.command\.1: must be a string, got number/],
    [["ls", "a\0b"], /body\.command\.1: must not contain a NUL/],
    [undefined, /body\.command: is required/],
    [["echo", "x".repeat(200_000)], /body\.command: must have at most 100000 bytes in total/],
    [Array(1025).fill("x"), /body\.command: must have at most 1024 entries/],
  ] as const) {
    const answer = await exec(command);
    assert.is(answer.status, 400, answer.text);
    assert.match(answer.error ?? "", message);
  }
  for (const timeoutSeconds of [0, 1.5, 3601]) assert.is((await exec(["ls"], { timeoutSeconds })).status, 400);
  assert.equal(kubectl.calls(), []);
});

test("output beyond 1 MiB is dropped, and the answer says so", async () => {
  const answer = await exec(["bash", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; exit 5"]);
  const outcome = answer.json as { stdout: string; exitCode: number; truncated: boolean };
  assert.is(outcome.stdout.length, 1024 * 1024);
  assert.is(outcome.exitCode, 5);
  assert.is(outcome.truncated, true);
  const errors = await exec(["bash", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 5"]);
  assert.is((errors.json as { exitCode: number }).exitCode, 5);
});

test("a command as long as is allowed runs", async () => {
  const { status, json, text } = await exec(["printf", "%s", "x".repeat(99_000)]);
  assert.is(status, 200, text);
  assert.is((json as { stdout: string }).stdout.length, 99_000);
});

test("bytes that are no UTF-8 do no harm", async () => {
  const answer = await exec(["printf", "a\\377b"]);
  assert.is((answer.json as { stdout: string }).stdout, "a\ufffdb");
});

test("a command that takes too long is ended, and the answer says what may go on", async () => {
  const answer = await exec(["sleep", "60"], { timeoutSeconds: 1 });
  assert.is(answer.status, 504);
  assert.match(answer.error ?? "", "the command has not finished after 1 s; it may still run in the instance");
  await ended();
});

test("a client that goes takes kubectl with it", async () => {
  const gone = new AbortController();
  const pending = edge.call("POST /api/v1/instances/inst-a/exec", {
    body: { command: ["sleep", "60"] },
    signal: gone.signal,
  });
  await eventually(() => kubectl.pids().length === 1);
  gone.abort();
  assert.is((await pending).status, 499);
  await ended();
});

test("logs are plain text, of the last 200 lines unless told", async () => {
  const answer = await logs();
  assert.is(answer.status, 200);
  assert.match(answer.headers.get("content-type") ?? "", /^text\/plain/);
  assert.is(answer.text, "line of inst-a\n");
  await logs("?tail=7&previous=true");
  await logs("?tail=0&follow=false");
  const flags = kubectl.calls().map((call) => call.slice(4).join(" "));
  assert.equal(flags, [
    "--container workload --tail=200",
    "--container workload --tail=7 --previous",
    "--container workload --tail=0",
  ]);
});

test("logs refuse what is no number of lines or no flag", async () => {
  for (const query of ["tail=-1", "tail=x", "tail=", "tail=100001", "tail=1&tail=2", "follow=yes", "previous=1"]) {
    const answer = await logs(`?${query}`);
    assert.is(answer.status, 400, query);
    assert.match(answer.error ?? "", /^query\.(tail|follow|previous): must be/);
  }
  assert.equal(kubectl.calls(), []);
});

test("logs that do not come are an error and not an empty text", async () => {
  assert.is((await logs("", "starting")).status, 409);
  assert.is((await logs("", "gone")).status, 404);
  const previous = await logs("?previous=true", "first-run");
  assert.is(previous.status, 404);
  assert.match(previous.error ?? "", 'instance "first-run" has no previous run: its container has never restarted');
});

test("followed logs are a stream that ends at its source when its reader goes", async () => {
  edge.cluster.addInstance("inst-a");
  const response = await edge.handler(new Request("http://edge.test/api/v1/instances/inst-a/logs?follow=true"));
  const reader = response.body?.getReader();
  const first = await reader?.read();
  assert.is(new TextDecoder().decode(first?.value), "line of inst-a\n");
  await reader?.cancel();
  await ended();
});

test("the answer to a follower of a quiet program begins at once, and one that cannot be opened keeps its status", async () => {
  // Its clock stands still: nothing is waited for.
  const still = testEdge({ kubectl: kubectl.command });
  const gone = new AbortController();
  const follow = async (pod: string) => {
    const request = new Request(`http://edge.test/api/v1/instances/${pod}/logs?follow=true`);
    return (await still.handler(request, { clientGone: gone.signal })).status;
  };
  // Where the runtime holds the head back, a failure's words are waited for instead.
  still.cluster.addInstance("no-node");
  const onBun = new Request("http://edge.test/api/v1/instances/no-node/logs?follow=true");
  assert.is((await still.handler(onBun, { clientGone: gone.signal, headWaits: true })).status, 503);
  for (const pod of ["quiet", "starting", "gone"]) still.cluster.addInstance(pod);
  assert.is(await follow("quiet"), 200);
  const waiting = { waiting: { reason: "ContainerCreating" } };
  const pod = still.cluster.read(pods, "starting");
  const [container] = pod.status?.containerStatuses ?? [];
  assert.ok(container);
  const containerStatuses = [{ ...container, ready: false, state: waiting }];
  still.cluster.add(pods, { ...pod, status: { phase: "Pending", containerStatuses } });
  assert.is(await follow("starting"), 409);
  still.cluster.removePod("gone");
  assert.is(await follow("gone"), 404);
  gone.abort();
  await ended();
});

test("followed logs end at their source when the client goes, though nothing is written", async () => {
  const gone = new AbortController();
  const response = await edge.handler(new Request("http://edge.test/api/v1/instances/inst-a/logs?follow=true"), {
    clientGone: gone.signal,
  });
  await response.body?.getReader().read();
  gone.abort();
  await ended();
});

test("a log stream that breaks off fails, so that it does not look complete", async () => {
  edge.cluster.addPod("breaks", "Running");
  const response = await edge.handler(new Request("http://edge.test/api/v1/instances/breaks/logs?follow=true"));
  try {
    await response.text();
    assert.unreachable("it ended well");
  } catch (error) {
    assert.match(String(error), /the connection to instance "breaks" was lost/);
  }
});

test("HEAD of logs leaves nothing running", async () => {
  assert.is((await edge.call("HEAD /api/v1/instances/inst-a/logs?follow=true")).status, 200);
  // It may be killed before it has said its process id.
  await eventually(() => kubectl.pids().every((pid) => !isRunning(pid)));
});

test("without kubectl, or with an old one, both are a 503 that says what to install", async () => {
  const old = fakeKubectl({ version: "v1.19.16" });
  for (const [command, message] of [
    ["/nowhere/kubectl", /has no kubectl, which logs and exec need; install kubectl 1\.20 or newer/],
    ["/dev/null", /cannot be run; install/],
    ["/bin/echo", /fails to report its version; install/],
    [old.command, /is version 1\.19, which is too old; install kubectl 1\.20 or newer/],
  ] as const) {
    edge = testEdge({ kubectl: command });
    for (const answer of [await exec(["ls"]), await logs()]) {
      assert.is(answer.status, 503, `${command} ${answer.text}`);
      assert.match(answer.error ?? "", message);
    }
  }
  old.remove();
});

test("a kubectl that may drop the first output over WebSockets runs commands over SPDY", async () => {
  for (const [version, expected] of [
    ["v1.33.6", "false"],
    ["v1.34.0", ""],
    ["v2.0.0", ""],
  ] as const) {
    const other = fakeKubectl({ version });
    edge = testEdge({ kubectl: other.command, clock: systemClock });
    const { json } = await exec(["bash", "-c", 'printf %s "$KUBECTL_REMOTE_COMMAND_WEBSOCKETS"']);
    assert.equal(json, { stdout: expected, stderr: "", exitCode: 0 }, version);
    other.remove();
  }
});

test("more than 32 commands at once, or 16 in one instance, are a 503, and there is room again afterwards", async () => {
  const clients = Array.from({ length: 32 }, () => new AbortController());
  const running = clients.map(({ signal }, index) => exec(["sleep", "60"], { pod: `inst-${index % 2}`, signal }));
  await eventually(() => kubectl.pids().length === 32);
  refused(await exec(["true"], { pod: "inst-other" }), /^32 commands .* are already running; try again/);
  clients[0]?.abort();
  await eventually(async () => (await exec(["true"], { pod: "inst-other" })).status === 200);
  refused(await exec(["true"], { pod: "inst-1" }), /^16 commands .* are already running for this instance; try again/);
  for (const client of clients) client.abort();
  await Promise.all(running);
  await ended();
  await eventually(async () => (await exec(["true"])).status === 200);
});

test("followers of logs leave room for commands and plain logs, and those of one instance for those of others", async () => {
  const clients: AbortController[] = [];
  const follow = (pod: string) => {
    const gone = new AbortController();
    clients.push(gone);
    edge.cluster.addPod(pod, "Running");
    const request = new Request(`http://edge.test/api/v1/instances/${pod}/logs?follow=true`);
    return edge.handler(request, { clientGone: gone.signal });
  };
  for (let count = 0; count < 4; count += 1) assert.is((await follow("inst-greedy")).status, 200);
  refused(await logs("?follow=true", "inst-greedy"), /^4 readers .* are already running for this instance; try again/);
  for (let count = 0; count < 12; count += 1) assert.is((await follow(`inst-${count}`)).status, 200);
  refused(await logs("?follow=true", "inst-other"), /^16 readers .* are already running; try again/);
  assert.is((await exec(["true"], { pod: "inst-greedy" })).status, 200);
  assert.is((await logs("", "inst-greedy")).status, 200);
  for (const client of clients) client.abort();
  await ended();
  await eventually(async () => (await edge.call("HEAD /api/v1/instances/inst-greedy/logs?follow=true")).status === 200);
});

test("a log that nobody reads is let go of after ten minutes", async () => {
  const clock = manualClock();
  edge = testEdge({ kubectl: kubectl.command, clock });
  edge.cluster.addPod("endless", "Running");
  const response = await edge.handler(new Request("http://edge.test/api/v1/instances/endless/logs"));
  assert.is(response.status, 200);
  assert.is(await clock.runNext(), 10 * 60_000);
  await ended();
  assert.match(String(await response.text().catch(String)), "Error");
});

test.run();

function refused(answer: Answer, message: RegExp): void {
  assert.is(answer.status, 503, answer.text);
  assert.match(answer.error ?? "", message);
  assert.is(answer.headers.get("retry-after"), "1");
}

/** No kubectl that was started runs any more. */
async function ended(): Promise<void> {
  await eventually(() => {
    const pids = kubectl.pids();
    return pids.length > 0 && pids.every((pid) => !isRunning(pid));
  });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
