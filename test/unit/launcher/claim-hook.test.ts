// The command that tells a program of its claim, with the static busybox that pods get, and a folder as the pod's root.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { ClaimHook } from "../../../crds/defaults.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { hookInputs } from "../../../operator/launcher/claim-hook.ts";
import type { ReadInputs } from "../../../operator/launcher/given-inputs.ts";
import { createProgramStarter, hasTaken, isNeverGiven } from "../../../operator/launcher/program-starter.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { localExec } from "../snapshots/local-exec.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";

const test = suite("claim hook");
const SECRET = "planted-secret";
const root = mkdtempSync(join(tmpdir(), "tenancy-hook-"));
const claim = { metadata: { name: "ann" }, spec: { tenantId: "ann", workloadRef: "warm" } } as Claim;
const inputs: ReadInputs = {
  env: new Map([["LANG", 'a "b"\n$c é']]),
  secrets: new Map([["TOKEN", Buffer.from(SECRET)]]),
  files: [{ path: "/data/settings.json", mode: "0644", content: Buffer.from([0, 255, 10]) }],
};

test.after(() => rmSync(root, { recursive: true, force: true }));

const podRoot = () => {
  const own = mkdtempSync(join(root, "pod-"));
  mkdirSync(join(own, "run/tenancy"), { recursive: true });
  return own;
};
const read = (own: string, path: string) => readFileSync(join(own, "run/tenancy/claim", path));
const shell = (script: string) => [staticBusybox, "sh", "-c", script];

/** What the operator does when a pod with the hook is claimed; returns what is wrong. */
async function call(
  own: string,
  hook: ClaimHook["call"],
  options: { given?: ReadInputs; isGiven?: boolean; timeoutSeconds?: number; isPrepared?: boolean } = {},
): Promise<Error | undefined> {
  const { given, isGiven = false, timeoutSeconds = 10, isPrepared = false } = options;
  const annotations = { [annotation.onClaim]: JSON.stringify({ call: hook, timeoutSeconds }) };
  const pod = { metadata: { name: "this", uid: "this", annotations }, spec: { containers: [] } } as Pod;
  const starter = createProgramStarter({ exec: localExec, namespace: "here", busybox: staticBusybox, root: own });
  if (isPrepared) starter.prepare(pod);
  const { signal } = new AbortController();
  try {
    await starter.start(pod, { inputs: given && hookInputs(claim, given), isGiven, isHealthy: true, signal });
    return undefined;
  } catch (error) {
    return error as Error;
  } finally {
    starter.close();
  }
}

for (const isPrepared of [false, true]) {
  test(`a ${isPrepared ? "prestarted" : "new"} command: the hook reads the claim, and files have the rest`, async () => {
    const own = podRoot();
    const seen = join(own, "seen");
    const command = [...shell('cat > "$0"; printf %s "$1" >> "$0"'), seen, "é and $HOME"];
    assert.is(await call(own, { command }, { given: inputs, isPrepared }), undefined);
    const text = readFileSync(seen, "utf8");
    assert.ok(text.endsWith("é and $HOME"), text);
    assert.equal(JSON.parse(text.slice(0, -"é and $HOME".length)), {
      ...{ tenantId: "ann", workload: "warm", env: Object.fromEntries(inputs.env) },
      secrets: { TOKEN: "/run/tenancy/claim/secrets/TOKEN" },
      files: { "/data/settings.json": "/run/tenancy/claim/files/data/settings.json" },
    });
    assert.equal(JSON.parse(read(own, "env.json").toString()), Object.fromEntries(inputs.env));
    assert.is(read(own, "secrets/TOKEN").toString(), SECRET);
    assert.equal(read(own, "files/data/settings.json"), Buffer.from([0, 255, 10]));
    for (const path of ["env.json", "claim.json", "secrets/TOKEN", "files/data/settings.json"])
      assert.is(statSync(join(own, "run/tenancy/claim", path)).mode & 0o777, 0o400, path);
  });
}

test("a pod without the inputs says so, and calls nothing; with them the hook can be called again", async () => {
  const own = podRoot();
  const seen = join(own, "seen");
  const hook = { command: [...shell('echo called >> "$0"'), seen] };
  assert.ok(isNeverGiven(await call(own, hook, { isGiven: true })));
  assert.not.ok(existsSync(seen));
  assert.is(await call(own, hook, { given: inputs }), undefined);
  assert.is(await call(own, hook, { isGiven: true }), undefined);
  // An operator that does not know of the first one.
  assert.is(await call(own, hook, { given: inputs }), undefined);
  assert.is(readFileSync(seen, "utf8"), "called\n".repeat(3));
});

test("a command that fails: its exit code is told, nothing that it printed, and the pod has the inputs", async () => {
  const own = podRoot();
  const script = 'cat /dev/null "$0"; cat "$0" >&2; exit 7';
  const command = [...shell(script), join(own, "run/tenancy/claim/secrets/TOKEN")];
  const error = await call(own, { command }, { given: inputs });
  assert.is(error?.message, "Cannot call entrypoint.onClaim: it ended with 7");
  assert.ok(hasTaken(error));
});

test("a command that does not end is ended, though it ignores SIGTERM", async () => {
  const own = podRoot();
  const command = shell("trap '' TERM; while :; do sleep 0.1; done");
  const error = await call(own, { command }, { given: inputs, timeoutSeconds: 1 });
  assert.is(error?.message, "Cannot call entrypoint.onClaim: it did not end within 1 s");
});

test("a second call takes no files from under one that still runs, and both have all", async () => {
  const own = podRoot();
  const script = 'echo >> "$0/calls"; until [ -e "$0/go" ]; do usleep 10000; done; cat "$1" >> "$0/seen"';
  const command = [...shell(script), own, join(own, "run/tenancy/claim/secrets/TOKEN")];
  const calls = [call(own, { command }, { given: inputs })];
  const untilCalled = (times: number) =>
    waitUntil(() => existsSync(join(own, "calls")) && readFileSync(join(own, "calls"), "utf8").length === times, {
      ...{ what: `call ${times}`, limitMs: 10_000 },
    });
  await untilCalled(1);
  calls.push(call(own, { command }, { given: inputs }));
  await untilCalled(2);
  writeFileSync(join(own, "go"), "");
  assert.equal(await Promise.all(calls), [undefined, undefined]);
  assert.is(readFileSync(join(own, "seen"), "utf8"), SECRET.repeat(2));
});

test("a program that does not exist", async () => {
  const error = await call(podRoot(), { command: ["/no/such/program"] }, { given: inputs });
  assert.is(error?.message, "Cannot call entrypoint.onClaim: it ended with 127");
  // A name of a program that is busybox's own and not the image's.
  const own = await call(podRoot(), { command: ["vlock"] }, { given: inputs });
  assert.is(own?.message, "Cannot call entrypoint.onClaim: there is no program vlock in the container");
});

test("the command runs in the image's own folder", async () => {
  const own = podRoot();
  assert.is(await call(own, { command: [...shell('pwd > "$0"'), join(own, "seen")] }, { given: inputs }), undefined);
  assert.is(readFileSync(join(own, "seen"), "utf8").trim(), process.cwd());
});

test("a file that cannot be written is named, and nothing is called", async () => {
  const own = podRoot();
  const path = `/${"x".repeat(256)}`;
  const given = { ...inputs, files: [{ path, mode: "0600", content: Buffer.from(SECRET) }] };
  const error = await call(own, { command: [...shell('echo > "$0"'), join(own, "seen")] }, { given });
  assert.match(error?.message ?? "", `cannot write /run/tenancy/claim/files${path}`);
  assert.not(error?.message.includes(SECRET));
  assert.not.ok(hasTaken(error));
  assert.not.ok(existsSync(join(own, "seen")));
});

test("a request: its body is the claim; only 200 to 299 will do", async () => {
  const requests: { line: string; type: string | undefined; body: string }[] = [];
  let status = 204;
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    requests.push({ line: `${request.method} ${request.url}`, type: request.headers["content-type"], body });
    response.writeHead(status, { location: "/elsewhere" }).end(status === 204 ? undefined : SECRET);
  }).listen(0);
  try {
    const { port } = server.address() as AddressInfo;
    const large: ReadInputs = { ...inputs, env: new Map([["LARGE", "x".repeat(60_000)]]) };
    const own = podRoot();
    const hook = { path: "/claim/(a)$b'c", port };
    assert.is(await call(own, hook, { given: large }), undefined);
    const [request] = requests;
    assert.equal([request?.line, request?.type], [`POST ${hook.path}`, "application/json"]);
    assert.is(request?.body, read(own, "claim.json").toString());
    assert.is(JSON.parse(request?.body ?? "").env.LARGE.length, 60_000);
    for (status of [302, 500]) {
      const error = await call(own, hook, { isGiven: true });
      const said = `POST ${hook.path} on port ${port} is answered with ${status}`;
      assert.is(error?.message, `Cannot call entrypoint.onClaim: ${said}`);
    }
  } finally {
    server.close();
  }
});

test("a port that takes no connection, and a server that does not answer", async () => {
  const port = await freePort();
  const refused = await call(podRoot(), { path: "/", port }, { given: inputs });
  assert.is(refused?.message, `Cannot call entrypoint.onClaim: connection refused on port ${port}`);
  const server = createServer(() => undefined).listen(port);
  try {
    const silent = await call(podRoot(), { path: "/", port }, { given: inputs, timeoutSeconds: 1 });
    assert.is(silent?.message, `Cannot call entrypoint.onClaim: no answer to POST / on port ${port} within 1 s`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test.run();
