// @runtimes node bun
// Commands of the command line, on an edge with the real program of the pods, which runs on this machine.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { clientEdge, INSTANCE, KEY } from "../rest-client/client-edge.ts";
import { type CliOptions, runCli } from "./run-cli.ts";

const test = suite("commands of tenancy");
let edge: Awaited<ReturnType<typeof clientEdge>>;

test.before(async () => {
  edge = await clientEdge();
});
test.after(() => edge?.stop());

const tenancy = (words: string[], options: CliOptions = {}) =>
  runCli(words, { ...options, env: { TENANCY_URL: edge.url, TENANCY_KEY: KEY, HOME: edge.folder, ...options.env } });
async function printed(words: string[], options: CliOptions = {}): Promise<string> {
  const { exitCode, stdout, stderr } = await tenancy(words, options);
  assert.is(exitCode, 0, `${words.join(" ")}: ${stderr}`);
  return String(stdout);
}

test("ls: lists claims and instances in each format", async () => {
  assert.match(await printed(["ls", "ann"]), /^TENANT .*\nann +app +Active +inst-a +cold +10\.0\.0\.1:8080/);
  assert.is(await printed(["ls", "-o", "name"]), "ann/app\n");
  assert.is(await printed(["ls", "--instances", "-oname"]), `${INSTANCE}\n`);
  assert.is(JSON.parse(await printed(["ls", "-o", "json"]))[0].instanceId, INSTANCE);
  assert.is(await printed(["ls", "bob", "-o", "json"]), "[]\n");
});

test("exec: passes bytes and the exit code on", async () => {
  const program = "process.stdout.write(Buffer.from([0, 255, 10])); console.error('e'); process.exitCode = 42";
  const { exitCode, stdout, stderr } = await tenancy(["exec", "ann/app", "--", process.execPath, "-e", program]);
  assert.equal([exitCode, [...stdout], stderr], [42, [0, 255, 10], "e\n"]);
  const killed = await tenancy(["exec", INSTANCE, "--", "/bin/sh", "-c", "kill -9 $$"]);
  assert.is(killed.exitCode, 137);
  assert.is(
    await printed(["exec", INSTANCE, "-e", "A=b", "--cwd", "/", "--", "/bin/sh", "-c", "echo $A $PWD"]),
    "b /\n",
  );
});

test("exec -i: waits for a command that reads slowly, and loses nothing", async () => {
  const stdin = Buffer.alloc(6_000_000, "abc");
  const go = join(edge.folder, "go");
  const script = `echo ready; until [ -e ${go} ]; do /bin/sleep 0.05; done; exec /usr/bin/wc -c`;
  let isAsked = false;
  assert.is(
    await printed(["exec", "-i", "ann/app", "--", "/bin/sh", "-c", script], {
      stdin,
      async onStdout() {
        if (isAsked) return;
        isAsked = true;
        // In which time all of it could be sent.
        for (let calls = 0; calls < 20; calls += 1) await printed(["ps", INSTANCE]);
        writeFileSync(go, "");
      },
    }),
    `ready\n${stdin.length}\n`,
  );
});

test("exec: Ctrl-C goes to the command, and the exit code is 130", async () => {
  const script = "trap 'echo trapped; exit 7' INT; echo ready; while :; do /bin/sleep 0.1; done";
  const { exitCode, stdout } = await tenancy(["exec", INSTANCE, "--", "/bin/sh", "-c", script], {
    onStdout(text, interrupt) {
      if (text === "ready\n") interrupt();
    },
  });
  assert.equal([exitCode, String(stdout)], [130, "ready\ntrapped\n"]);
});

test("exec: Ctrl-C while the command ends is no endless wait", async () => {
  const script = "trap 'echo trapped; exit 7' INT; echo ready; while :; do /bin/sleep 0.1; done";
  const { exitCode } = await tenancy(["exec", INSTANCE, "--", "/bin/sh", "-c", script], {
    onStdout: (_, interrupt) => interrupt(),
  });
  assert.is(exitCode, 130);
});

test("exec: a second Ctrl-C ends a command that ignores the first", async () => {
  const { exitCode, stdout } = await tenancy(
    ["exec", INSTANCE, "--", "/bin/sh", "-c", "trap 'echo no' INT; echo $$; while :; do /bin/sleep 0.1; done"],
    {
      onStdout: (text, interrupt) => {
        if (/^(\d+\n|\d+\nno\n)$/.test(text)) interrupt();
      },
    },
  );
  assert.is(exitCode, 130);
  assert.match(String(stdout), /^\d+\nno\n/);
});

test("exec -t: a terminal has both outputs, and its command does not outlive this program", async () => {
  const { exitCode, stdout } = await tenancy([
    "exec",
    "-t",
    INSTANCE,
    "--",
    "/bin/sh",
    "-c",
    "echo a; echo b >&2; exit 5",
  ]);
  assert.equal([exitCode, String(stdout)], [5, "a\r\nb\r\n"]);
  const script = "trap '' HUP; echo $$; while :; do /bin/sleep 0.1; done";
  const ended = await tenancy(["exec", "-t", INSTANCE, "--", "/bin/sh", "-c", script], {
    onStdout: (_, interrupt) => interrupt(),
  });
  assert.is(ended.exitCode, 130, ended.stderr);
  const found = JSON.parse(await printed(["ps", INSTANCE, "-o", "json"])) as { pid: number; signal?: string }[];
  assert.is(found.find(({ pid }) => pid === Number(ended.stdout))?.signal, "SIGKILL");
});

test("a failure has its exit code and one line", async () => {
  for (const [words, exitCode, message] of [
    [["exec", "bob/app", "--", "ls"], 3, 'tenant "bob" has no claim'],
    [["ls", "--url", "nowhere"], 2, "Cannot use the address"],
    [["ls", "--key-file", "/dev/null"], 2, "must be one word"],
    [["exec", INSTANCE, "--", "no-such-program"], 1, "no-such-program"],
  ] as const) {
    const run = await tenancy([...words]);
    assert.is(run.exitCode, exitCode, run.stderr);
    assert.match(run.stderr, message);
    assert.match(run.stderr, /^tenancy: [^\n]+\n$/);
    assert.is(run.stdout.length, 0);
  }
  const wrong = await tenancy(["ls"], { env: { TENANCY_KEY: "wrong" } });
  assert.is(wrong.exitCode, 4, wrong.stderr);
  assert.match(wrong.stderr, "tenancy login");
});

test("claim: takes no secret as an argument", async () => {
  const run = await tenancy(["claim", "ann", "app", "--secret", "TOKEN=visible"]);
  assert.is(run.exitCode, 2);
  assert.match(run.stderr, "TOKEN=-");
  assert.not.match(run.stderr, "visible");
});

test.run();
