import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import * as assert from "uvu/assert";
import type { Pod } from "../../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import type { GivenFile, GivenInputs } from "../../../operator/launcher/given-inputs.ts";
import { type HealthCheck, healthProbe } from "../../../operator/launcher/health-check.ts";
import { LAUNCHER_FOLDER, preStopHook } from "../../../operator/launcher/launch-command.ts";
import { createProgramStarter, isNeverGiven, type StartOptions } from "../../../operator/launcher/program-starter.ts";
import { stopProgram } from "../../../operator/launcher/stop-program.ts";
import { TOOLS_BUSYBOX } from "../../../operator/snapshots/pods/pod-tools.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { localExec } from "../snapshots/local-exec.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";
import { type Container, LIMIT_MS, launcherSuite, shell } from "./containers.ts";

const { test, root, launch, rootTest } = launcherSuite("launcher");

const says = (container: Container, word: string) =>
  waitUntil(() => container.output().includes(word), {
    what: `the program to say ${word}`,
    limitMs: LIMIT_MS,
    explain: () => container.output(),
  });

function stop(container: Container, graceSeconds = 30) {
  const pod = { namespace: "here", pod: "this", container: "workload", busybox: staticBusybox, root: container.root };
  return stopProgram({ exec: container.exec, pod, graceSeconds, signal: new AbortController().signal });
}

/** What the kubelet and the operator do when nothing is left to save. */
function end(container: Container): void {
  container.signal("SIGTERM");
  writeFileSync(join(container.folder, "wake"), "end\n");
}

async function callPreStopHook({ exec, folder }: Container): Promise<void> {
  const { command } = preStopHook({ busybox: staticBusybox, folder }).exec;
  const place = { namespace: "here", pod: "this", container: "workload" };
  const { exitCode, stderr } = await exec({ ...place, command, timeoutMs: LIMIT_MS });
  assert.is(exitCode, 0, stderr);
}

for (const code of [0, 1, 3, 126, 127, 143, 255]) {
  rootTest(`ends with the exit code ${code} of its program`, async () => {
    assert.is(await launch(shell(`exit ${code}`)).exitCode, code);
  });
}

rootTest("ends as the program does that a signal ends", async () => {
  assert.is(await launch(shell("kill -SEGV $$")).exitCode, 139);
});

rootTest("gives the program its arguments and its environment as they are", async () => {
  const env = {
    PATH: "/usr/bin:/bin",
    PLAIN: "a b",
    QUOTED: `'"\`$(exit 3)\\`,
    LINES: "one\ntwo\n",
    UTF8: "ä€😀",
    "spring.data.url": "dotted = yes",
    "with-dash": "1",
    "-x": "an option of env",
    EMPTY: "",
  };
  const args = ["one two", "", "*", "$PLAIN", "'", "-n", "ü\nx"];
  const print = "console.log(JSON.stringify([process.argv.slice(1), process.env]))";
  const container = launch([process.execPath, "-e", print, "--", ...args], { env });
  assert.is(await container.exitCode, 0, container.output());
  const [given, seen] = JSON.parse(container.output());
  assert.equal(given, args);
  assert.equal(seen, env);
});

rootTest("looks for the program in PATH, never among the tools' own", async () => {
  const bin = join(root, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "httpd"), "#!/bin/sh\necho own\n", { mode: 0o755 });
  const container = launch(["httpd"], { env: { PATH: `/nowhere:${bin}:/usr/bin:/bin` } });
  assert.is(await container.exitCode, 0);
  assert.is(container.output(), "own\n");
});

for (const [program, code, words] of [
  ["/no/such/program", 127, 'exec: "/no/such/program": no such file or directory'],
  ["nosuchprogram", 127, 'exec: "nosuchprogram": executable file not found in $PATH'],
  ["/etc/passwd", 126, 'exec: "/etc/passwd": permission denied'],
] as const) {
  rootTest(`says what the container runtime would say of ${program}`, async () => {
    const container = launch([program], { env: { PATH: "/usr/bin:/bin" } });
    assert.is(await container.exitCode, code);
    assert.is(container.output().trim(), words);
  });
}

rootTest("starts the program in its own session with no signal ignored", async () => {
  const container = launch(["/bin/sh", "-c", "grep SigIgn /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat; echo $$"]);
  assert.is(await container.exitCode, 0);
  const [ignored, groupAndSession, pid] = container.output().trim().split("\n");
  assert.match(ignored ?? "", /:\t0+$/);
  assert.is(groupAndSession, `${pid} ${pid}`);
});

for (const name of ["SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const) {
  rootTest(`passes ${name} on`, async () => {
    const short = name.slice(3);
    const container = launch(shell(`trap 'echo got ${short}; exit 9' ${short}; echo up; while :; do sleep 0.1; done`));
    await says(container, "up");
    container.signal(name);
    assert.is(await container.exitCode, 9);
    assert.match(container.output(), `got ${short}`);
  });
}

rootTest("reaps what the program leaves behind", async () => {
  const script =
    "for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.5; grep -l '^State:.Z' /proc/[0-9]*/status; echo done";
  const container = launch(shell(script));
  await container.exitCode;
  assert.is(container.output().trim(), "done");
});

rootTest("stays after SIGTERM until it is told that nothing is left to save", async () => {
  const container = launch(shell("trap 'echo flushed > saved; exit 4' TERM; echo up; while :; do sleep 0.1; done"));
  await says(container, "up");
  container.signal("SIGTERM");
  await waitUntil(() => existsSync(join(container.root, "saved")), { what: "the program to flush", limitMs: LIMIT_MS });
  assert.is(await stop(container), "stopped");
  end(container);
  assert.is(await container.exitCode, 4);
});

for (const name of ["SIGQUIT", "SIGINT", "SIGUSR1", "SIGWINCH"] as const) {
  rootTest(`stays too where the image has ${name} as its signal to stop`, async () => {
    const short = name.slice(3);
    const container = launch(
      shell(`trap 'echo flushed > saved; exit 4' ${short}; echo up; while :; do sleep 0.1; done`),
    );
    await says(container, "up");
    await callPreStopHook(container);
    container.signal(name);
    await waitUntil(() => existsSync(join(container.root, "saved")), { what: "the flush", limitMs: LIMIT_MS });
    assert.is(await stop(container), "stopped");
    writeFileSync(join(container.folder, "wake"), "end\n");
    assert.is(await container.exitCode, 4);
  });
}

rootTest("ends after the hook that told it so, which would be killed with process 1", async () => {
  for (let times = 0; times < 20; times += 1) {
    const container = launch(shell("echo up; while :; do sleep 0.1; done"));
    await says(container, "up");
    assert.is(await stop(container), "stopped");
    writeFileSync(join(container.folder, "wake"), "end\n");
    await callPreStopHook(container);
    assert.is(await container.exitCode, 143);
  }
});

rootTest("passes SIGTERM on that comes before the program has begun", async () => {
  for (let times = 0; times < 20; times += 1) {
    const container = launch(shell("while :; do sleep 0.1; done"));
    await waitUntil(() => existsSync(join(container.folder, "wake")), {
      ...{ what: "the launcher", limitMs: LIMIT_MS, intervalMs: 1 },
    });
    end(container);
    assert.is(await container.exitCode, 143);
  }
});

rootTest("a stop ends a program that begins at that moment", async () => {
  for (let times = 0; times < 20; times += 1) {
    const container = launch(shell("while :; do sleep 0.1; done"));
    await waitUntil(() => existsSync(join(container.folder, "wake")), {
      ...{ what: "the launcher", limitMs: LIMIT_MS, intervalMs: 1 },
    });
    await stop(container);
    end(container);
    assert.ok([0, 143].includes((await container.exitCode) ?? -1));
  }
});

rootTest("a stop is not misled by the names of processes, nor by what the program puts in place of files", async () => {
  const hide = `cp ${staticBusybox} 'x) R 0\nState: Z'; './x) R 0\nState: Z' sh -c 'while :; do sleep 0.1; done' &`;
  const fifo = `rm run/tenancy/program; mkfifo run/tenancy/program`;
  const container = launch(shell(`sleep 0.2; ${hide} ${fifo}; echo up; while :; do sleep 0.1; done`));
  await says(container, "up");
  assert.is(await stop(container), "stopped");
  end(container);
  assert.is(await container.exitCode, 143);
});

rootTest("ends at once where it was told before SIGTERM", async () => {
  const container = launch(shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"));
  await says(container, "up");
  writeFileSync(join(container.folder, "wake"), "end\n");
  container.signal("SIGTERM");
  assert.is(await container.exitCode, 0);
});

rootTest("a stop ends the program and what it left behind, and the container stays", async () => {
  const daemon =
    "setsid sh -c 'trap \"echo daemon >> saved; exit\" TERM; echo daemon up; while :; do sleep 0.1; done' &";
  const own = "trap 'echo program >> saved; exit 0' TERM; echo program up; while :; do sleep 0.1; done";
  const container = launch(shell(`${daemon} ${own}`));
  await says(container, "program up");
  await says(container, "daemon up");
  assert.is(await stop(container), "stopped");
  assert.is(readFileSync(join(container.root, "saved"), "utf8"), "program\ndaemon\n");
  assert.is(await stop(container), "stopped");
  end(container);
  assert.is(await container.exitCode, 0);
});

rootTest("a stop kills what ignores SIGTERM after its grace", async () => {
  const container = launch(shell("trap '' TERM; echo up; while :; do sleep 0.1; done"));
  await says(container, "up");
  assert.is(await stop(container, 1), "killed");
  end(container);
  assert.is(await container.exitCode, 137);
});

rootTest("a stop leaves the commands of an exec alone", async () => {
  const container = launch(shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"));
  await says(container, "up");
  const mark = join(container.root, "in");
  const command = shell(`echo $$ > ${mark}; exec sleep 3600`);
  const stopExec = new AbortController();
  const other = container
    .exec({ namespace: "", pod: "", container: "", command, signal: stopExec.signal, timeoutMs: LIMIT_MS })
    .then(({ exitCode }) => exitCode, String);
  await waitUntil(() => existsSync(mark), {
    what: "the exec to start",
    limitMs: LIMIT_MS,
  });
  assert.is(await stop(container), "stopped");
  assert.is(await Promise.race([other, Promise.resolve("runs")]), "runs");
  end(container);
  assert.is(await container.exitCode, 0);
  stopExec.abort();
  await other;
});

rootTest("a program that was stopped for good is not started again with its container", async () => {
  const container = launch(shell("echo started"), { before: (folder) => writeFileSync(join(folder, "stop"), "") });
  await waitUntil(() => existsSync(join(container.folder, "wake")), { what: "the launcher", limitMs: LIMIT_MS });
  end(container);
  assert.is(await container.exitCode, 0);
  assert.is(container.output(), "");
});

rootTest("a container without a launcher has nothing to stop", async () => {
  const own = mkdtempSync(join(root, "plain-"));
  const pod = { namespace: "here", pod: "this", container: "workload", busybox: staticBusybox, root: own };
  const signal = new AbortController().signal;
  assert.is(await stopProgram({ exec: localExec, pod, graceSeconds: 1, signal }), "none");
});

function fileOf(path: string, content: string): GivenFile {
  return { path, mode: "0640", content: Buffer.from(content) };
}

function inputsOf(inputs: Partial<GivenInputs>): GivenInputs {
  return { variables: new Map(), files: [], overlayDirs: [], isSession: false, ...inputs };
}

/** A folder that outlives the container, and a link of the image to it. */
function addLinkedVolume(folder: string): void {
  mkdirSync(join(folder, "../../vol"));
  symlinkSync("vol", join(folder, "../../link"));
}

function writeOld(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

/** What the operator does when the pod of a container is claimed. */
function startClaimed(
  container: Container,
  check: HealthCheck = {},
  options: Partial<StartOptions> = {},
): Promise<void> {
  const containers = [{ name: WORKLOAD_CONTAINER, startupProbe: healthProbe(check) }];
  const pod = { metadata: { name: "this", uid: "this" }, spec: { containers } } as Pod;
  const where = { namespace: "here", busybox: staticBusybox, root: container.root };
  const starter = createProgramStarter({ exec: container.exec, ...where });
  return starter.start(pod, { isHealthy: true, ...options, signal: new AbortController().signal });
}

/** Makes the check of a probe. */
async function probe(container: Container, check: HealthCheck = {}): Promise<number> {
  const words = healthProbe(check).exec?.command ?? [];
  const own: Readonly<Record<string, string>> = {
    [TOOLS_BUSYBOX]: staticBusybox,
    [`/${LAUNCHER_FOLDER}`]: container.folder,
  };
  // As the kubelet does.
  const command = words.map((word) => own[word] ?? word.replaceAll("$$", "$"));
  const target = { namespace: "here", pod: "this", container: "workload", command };
  return (await container.exec({ ...target, timeoutMs: LIMIT_MS })).exitCode;
}

const untilWaiting = (container: Container) =>
  waitUntil(() => existsSync(join(container.folder, "wake")), { what: "the launcher", limitMs: LIMIT_MS });

rootTest("a program that starts with its claim waits for it, and is started once", async () => {
  const container = launch(shell("echo started; while :; do sleep 0.1; done"), { startsOnClaim: true });
  await untilWaiting(container);
  assert.is(await probe(container, { port: 1 }), 0);
  await startClaimed(container);
  await startClaimed(container);
  assert.is(container.output(), "started\n");
  assert.is(await probe(container, { port: 1 }), 1);
});

rootTest("it is started again with its container", async () => {
  const before = (folder: string) => writeFileSync(join(folder, "claimed"), "");
  const container = launch(shell("echo started; exit 3"), { startsOnClaim: true, before });
  assert.is(await container.exitCode, 3);
  assert.is(container.output(), "started\n");
});

rootTest("a start that was cut off before the launcher was woken is done by the next one", async () => {
  const container = launch(shell("echo started; while :; do sleep 0.1; done"), { startsOnClaim: true });
  await untilWaiting(container);
  writeFileSync(join(container.folder, "claimed"), "");
  await startClaimed(container);
  assert.is(container.output(), "started\n");
});

rootTest("a start ends when its program is stopped, and leaves no process that the stop would wait for", async () => {
  const container = launch(shell("echo started; while :; do sleep 0.1; done"), { startsOnClaim: true });
  await untilWaiting(container);
  const failure = startClaimed(container, { port: await freePort(), path: "/" }).then(() => "", String);
  await says(container, "started");
  assert.is(await stop(container), "stopped");
  assert.match(await failure, "it is being stopped");
});

rootTest(
  "a container with files whose launcher waits keeps them: a restart of the node may have emptied its memory",
  async () => {
    const container = launch(shell("echo started"), { startsOnClaim: true });
    await untilWaiting(container);
    container.signal("SIGTERM");
    await waitUntil(() => existsSync(join(container.folder, "term")), { what: "the signal", limitMs: LIMIT_MS });
    assert.is(await stop(container), "stopped");
    writeFileSync(join(container.folder, "wake"), "end\n");
    assert.is(await container.exitCode, 143);
    assert.is(container.output(), "");
  },
);

rootTest("a container without files that waits ends at once, whatever the image's signal to stop", async () => {
  const container = launch(shell("echo started"), { startsOnClaim: true, keepsFiles: false });
  await untilWaiting(container);
  container.signal("SIGTERM");
  assert.is(await container.exitCode, 143);
  const other = launch(shell("echo started"), { startsOnClaim: true, keepsFiles: false });
  await untilWaiting(other);
  await callPreStopHook(other);
  assert.is(await other.exitCode, 143);
  assert.is(container.output() + other.output(), "");
});

rootTest("a container without files ends with its program", async () => {
  const script = "trap 'exit 4' TERM; echo up; while :; do sleep 0.1; done";
  const container = launch(shell(script), { keepsFiles: false });
  await says(container, "up");
  container.signal("SIGTERM");
  assert.is(await container.exitCode, 4);
});

for (const path of [undefined, "/healthz?x=1"]) {
  rootTest(
    `a start lasts until the ${path === undefined ? "port takes connections" : "response is good"}`,
    async () => {
      const port = await freePort();
      // Not before half a second, and not well the first time.
      const server = `let isFirst = true;
      const answer = (request, response) => {
        console.log(request.method, request.url, request.headers.host !== undefined);
        response.writeHead(isFirst ? 503 : 301).end();
        isFirst = false;
      };
      setTimeout(() => require("node:http").createServer(answer).listen(${port}), 500);`;
      const container = launch([process.execPath, "-e", server], { startsOnClaim: true });
      await untilWaiting(container);
      await startClaimed(container, { port, path });
      const lines = container.output().trim().split("\n");
      if (path === undefined) return;
      assert.ok(lines.length > 1);
      assert.ok(lines.every((line) => line === `GET ${path} true`));
      assert.is(await probe(container, { port, path }), 0);
      assert.is(await probe(container, { port: await freePort(), path }), 1);
    },
  );
}

rootTest("a start lasts until the command of its check succeeds, which is ended if it hangs", async () => {
  const up = `trap 'exit 0' TERM; ${staticBusybox} sleep 0.5; : > up; while :; do ${staticBusybox} sleep 0.1; done`;
  const container = launch(shell(up), { startsOnClaim: true });
  await untilWaiting(container);
  const command = [
    staticBusybox,
    "sh",
    "-c",
    '[ "$1" = "a b\'$" ] && [ -e "$2" ] && echo said',
    "check",
    "a b'$",
    join(container.root, "up"),
  ];
  assert.is(await probe(container, { command: ["no such program"] }), 0, "it waits for its claim");
  await startClaimed(container, { command });
  assert.is(await probe(container, { command }), 0);
  assert.is(await probe(container, { command: [staticBusybox, "false"] }), 1);
  // Of the image, in whose shell, unlike in that of the tools, this is no command; in the folder of the image.
  assert.is(await probe(container, { command: ["sh", "-c", "[[ a = a ]]"] }), 1);
  const inFolder = [staticBusybox, "sh", "-c", '[ "$PWD" != "$1" ]', "check", container.root];
  await startClaimed(container, { command: inFolder }, { isAgain: true });
  const missing = await startClaimed(container, { command: ["no-such-program"] }, { isAgain: true }).then(
    () => "",
    String,
  );
  assert.match(missing, "there is no program no-such-program in the container");
  const hangs = [staticBusybox, "sh", "-c", "trap '' TERM; while :; do :; done"];
  assert.is(await probe(container, { command: hangs }), 1);
  const failure = await startClaimed(container, { command: hangs }, { isAgain: true }).then(() => "", String);
  assert.match(failure, "the command of spec.health.exec ended with 137");
});

rootTest(
  "the program finds what its claim brings, also where its container starts again without its files",
  async () => {
    const script = `$b cat /proc/$$/environ > env; $b cat etc/app/a; $b stat -c %a etc/app/a; echo up; trap 'exit 0' TERM; while :; do $b sleep 0.1; done`;
    const program = [staticBusybox, "sh", "-c", `b=${staticBusybox}; ${script}`];
    const values = {
      OWN: "replaced",
      QUOTED: `'"\`$(exit 3)\\`,
      LINES: "one\ntwo\n",
      UTF8: "ä€😀",
      EMPTY: "",
      PATH: "/none",
      b: "b",
      IFS: "x",
      _: "own",
    };
    const inputs = inputsOf({
      variables: new Map(Object.entries(values)),
      files: [fileOf("/etc/app/a", "first\n"), fileOf("/vol/sub/a", "volume\n"), fileOf("/link/b", "volume\n")],
      overlayDirs: ["/other", "/vol/"],
    });
    const mode = { startsOnClaim: true, env: { OWN: "the image's", KEPT: "too" } };
    const first = launch(program, {
      ...mode,
      before(folder) {
        writeOld(join(folder, "../../etc/app/a"), "old\n");
        addLinkedVolume(folder);
      },
    });
    await untilWaiting(first);
    let given = 0;
    await startClaimed(first, {}, { inputs, onGiven: () => (given += 1) });
    await says(first, "up");
    assert.is(first.output(), "first\n640\nup\n");
    const variables = readFileSync(join(first.root, "env"), "utf8").split("\0");
    for (const [name, value] of Object.entries({ ...values, KEPT: "too" }))
      assert.ok(variables.includes(`${name}=${value}`));
    assert.not(variables.includes("OWN=the image's"));
    assert.is(given, 1);
    for (const path of ["vol/sub/a", "vol/b"]) assert.is(readFileSync(join(first.root, path), "utf8"), "volume\n");
    // Another operator starts it once more: that changes nothing.
    writeFileSync(join(first.root, "etc/app/a"), "the session's\n");
    await startClaimed(first, {}, { inputs });
    assert.is(readFileSync(join(first.root, "etc/app/a"), "utf8"), "the session's\n");
    const copy = (folder: string) => {
      for (const name of ["claimed", "inputs", "taken"]) copyFileSync(join(first.folder, name), join(folder, name));
      addLinkedVolume(folder);
    };
    const again = launch(program, { ...mode, before: copy });
    await says(again, "up");
    assert.is(again.output(), "first\n640\nup\n");
    assert.equal(readdirSync(join(again.root, "vol")), [], "what the program has deleted there stays deleted");
  },
);

rootTest("inputs change nothing in the saved folders of a session", async () => {
  const container = launch(shell("echo up; sleep 60"), { startsOnClaim: true, before: addLinkedVolume });
  await untilWaiting(container);
  writeOld(join(container.root, "vol/a"), "the session's\n");
  const files = ["/vol/a", "/link/a", "/link/deleted/b", "/volume/c"].map((path) => fileOf(path, "new\n"));
  const inputs = inputsOf({ files, overlayDirs: ["/vol"], isSession: true });
  await startClaimed(container, {}, { isHealthy: false, inputs });
  await says(container, "up");
  assert.equal(readdirSync(join(container.root, "vol")), ["a"]);
  assert.is(readFileSync(join(container.root, "vol/a"), "utf8"), "the session's\n");
  assert.is(readFileSync(join(container.root, "volume/c"), "utf8"), "new\n");
});

rootTest("a session goes on where its launcher has lost its memory, with inputs if it needs them", async () => {
  const container = launch(shell("echo up $A; sleep 60"), { startsOnClaim: true });
  await untilWaiting(container);
  const failure = await startClaimed(container, {}, { isHealthy: false, isGiven: true }).then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(isNeverGiven(failure));
  assert.is(container.output(), "");
  const inputs = inputsOf({ variables: new Map([["A", "B"]]) });
  await startClaimed(container, {}, { isHealthy: false, inputs });
  await says(container, "up B");
  await startClaimed(container, {}, { isHealthy: false, isGiven: true });
});

rootTest("of two starts at once each gives the program all of its inputs", async () => {
  const container = launch(shell('ls in | "$0" wc -l; sleep 60'.replace('"$0"', staticBusybox)), {
    startsOnClaim: true,
  });
  await untilWaiting(container);
  const files = Array.from({ length: 64 }, (_, index) => fileOf(`/in/${index}`, "x".repeat(16_000)));
  const inputs = inputsOf({ files });
  const starts = [0, 30, 60].map(async (ms) => {
    await new Promise((resolve) => setTimeout(resolve, ms));
    await startClaimed(container, {}, { isHealthy: false, inputs });
  });
  // The parts of those that come first are removed.
  const ended = await Promise.allSettled(starts);
  assert.ok(ended.some(({ status }) => status === "fulfilled"));
  await says(container, "64");
});

rootTest("a program does not start where its files cannot be written", async () => {
  const container = launch(shell("echo started"), {
    startsOnClaim: true,
    before: (folder) => writeOld(join(folder, "../../a"), ""),
  });
  await untilWaiting(container);
  const inputs = inputsOf({ files: [fileOf("/a/b", "secret")] });
  const failure = await startClaimed(container, {}, { inputs }).then(() => "", String);
  assert.match(failure, "Cannot start the program");
  assert.is(await container.exitCode, 125);
  assert.is(container.output(), "cannot write the claim's file /a/b\n");
});

rootTest("a start reads a response to its end, whatever its form", async () => {
  const port = await freePort();
  // A reset would end this server: it does not handle errors.
  const server = `require("node:net").createServer((socket) => {
    const lines = ["HTTP/1.1 103 Early Hints", "Link: x", "", "HTTP/1.1 200", "", "x".repeat(5000)];
    socket.once("data", () => socket.write(lines.join("\\r\\n"), () => setTimeout(() => socket.end("end"), 50)));
    socket.on("close", () => console.log("closed"));
  }).listen(${port})`;
  const container = launch([process.execPath, "-e", server], { startsOnClaim: true });
  await untilWaiting(container);
  await startClaimed(container, { port, path: "/" });
  assert.is(await probe(container, { port, path: "/" }), 0);
  await says(container, "closed\nclosed");
  assert.is(container.output(), "closed\nclosed\n");
});

rootTest("a start says why the program is not healthy, and does not wait for long", async () => {
  const port = await freePort();
  const server = `require("node:http").createServer((_, response) => response.writeHead(503).end()).listen(${port})`;
  const container = launch([process.execPath, "-e", server], { startsOnClaim: true });
  await untilWaiting(container);
  const failure = await startClaimed(container, { port, path: "/x" }).then(() => "", String);
  assert.match(failure, `Cannot start the program: GET /x on port ${port} is answered with 503`);
  const other = await startClaimed(container, { port: await freePort() }).then(() => "", String);
  assert.match(other, /connection refused on port/);
});

rootTest("a start fails where the program ends before it is healthy", async () => {
  const container = launch(shell("sleep 0.2; exit 7"), { startsOnClaim: true });
  await untilWaiting(container);
  const failure = await startClaimed(container, { port: await freePort() }).then(() => "", String);
  assert.match(failure, "Cannot start the program");
  assert.is(await container.exitCode, 7);
});

test.run();
