// @runtimes bun node deno
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ExecPlugin } from "../../../crds/client/config/cluster-config.ts";
import { createCredentials } from "../../../crds/client/config/credentials.ts";
import { manualClock } from "../manual-clock.ts";

const apiVersion = "client.authentication.k8s.io/v1";
let folder = "";

test.before.each(async () => {
  folder = await mkdtemp(join(tmpdir(), "exec-plugin-"));
});

test.after.each(() => rm(folder, { recursive: true }));

/** A plugin that counts its runs in a file and prints what the file `answer` holds. */
async function plugin(rest: Partial<ExecPlugin> = {}): Promise<ExecPlugin> {
  const command = join(folder, "plugin");
  await writeFile(
    command,
    `#!/bin/sh\ncd ${folder}\necho run >> runs\nprintf %s "$KUBERNETES_EXEC_INFO" > info\n${`. ./answer`}\n`,
  );
  await chmod(command, 0o755);
  return { apiVersion, command, ...rest };
}

async function answer(status: object, fields: object = {}): Promise<void> {
  const credential = JSON.stringify({ apiVersion, kind: "ExecCredential", status, ...fields });
  await writeFile(join(folder, "answer"), `cat <<'END'\n${credential}\nEND\n`);
}

async function runs(): Promise<number> {
  return (await readFile(join(folder, "runs"), "utf8")).trim().split("\n").length;
}

async function failure(exec: ExecPlugin): Promise<string> {
  try {
    await createCredentials({ config: { server: "https://one", exec }, clock: manualClock() }).current();
  } catch (error) {
    return (error as Error).message;
  }
  return "none";
}

test("createCredentials runs an exec plugin once for all who ask, and again when the credential has expired", async () => {
  const clock = manualClock();
  const config = { server: "https://one", caData: "CA", exec: await plugin() };
  const credentials = createCredentials({ config, clock });
  await answer({ token: "first", expirationTimestamp: new Date(clock.now() + 60_000).toISOString() });
  const [one, two] = await Promise.all([credentials.current(), credentials.current()]);
  assert.is(one, two);
  assert.equal([one.authorization, one.ca], ["Bearer first", "CA"]);
  assert.is(await credentials.current(), one);
  assert.is(await runs(), 1);
  clock.after(60_000, () => undefined);
  await clock.runNext();
  await answer({ token: "second" });
  assert.is((await credentials.current()).authorization, "Bearer second");
  assert.is(await runs(), 2);
});

test("createCredentials runs an exec plugin again when the server refused what it gave", async () => {
  const credentials = createCredentials({
    config: { server: "https://one", exec: await plugin() },
    clock: manualClock(),
  });
  await answer({ token: "first" });
  await credentials.current();
  credentials.invalidate();
  await answer({ clientCertificateData: "CERTIFICATE", clientKeyData: "KEY" });
  const { authorization, certificate, key } = await credentials.current();
  assert.equal([authorization, certificate, key], [undefined, "CERTIFICATE", "KEY"]);
});

test("createCredentials tells an exec plugin the version, and the cluster only where it asks for it", async () => {
  await answer({ token: "x" });
  const config = { server: "https://one", caData: "CA", tlsServerName: "api" };
  await createCredentials({ config: { ...config, exec: await plugin() }, clock: manualClock() }).current();
  const info = JSON.parse(await readFile(join(folder, "info"), "utf8"));
  assert.equal(info, { apiVersion, kind: "ExecCredential", spec: { interactive: false } });
  const exec = await plugin({ provideClusterInfo: true });
  await createCredentials({ config: { ...config, exec }, clock: manualClock() }).current();
  const { spec } = JSON.parse(await readFile(join(folder, "info"), "utf8"));
  const cluster = { server: "https://one", "tls-server-name": "api", "certificate-authority-data": "Q0E=" };
  assert.equal(spec, { interactive: false, cluster });
});

test("createCredentials passes the plugin's arguments and environment on", async () => {
  const exec = { apiVersion, command: "/bin/sh", args: ["-c", 'printf %s "$CREDENTIAL"'] };
  const credential = JSON.stringify({ apiVersion, kind: "ExecCredential", status: { token: "from the environment" } });
  const config = { server: "https://one", exec: { ...exec, env: { CREDENTIAL: credential } } };
  const { authorization } = await createCredentials({ config, clock: manualClock() }).current();
  assert.is(authorization, "Bearer from the environment");
});

test("createCredentials says what is wrong with an exec plugin", async () => {
  const exec = await plugin({ installHint: "see the manual" });
  const prefix = `Cannot get a credential from ${exec.command}: `;
  const answers: [answer: string, problem: string][] = [
    ["echo no session >&2; exit 3", `${prefix}no session (see the manual)`],
    ["echo hello", `${prefix}it printed no JSON (see the manual)`],
  ];
  for (const [text, problem] of answers) {
    await writeFile(join(folder, "answer"), text);
    assert.is(await failure(exec), problem);
  }
  await answer({ token: "x" }, { apiVersion: "client.authentication.k8s.io/v1beta1" });
  assert.match(
    await failure(exec),
    `it printed client.authentication.k8s.io/v1beta1 where ${apiVersion} was asked for`,
  );
  await answer({});
  assert.match(await failure(exec), "it printed no credential");
  await answer({ token: "x", clientKeyData: "KEY" });
  assert.match(await failure(exec), "it printed one of certificate and key without the other");
  await answer({ token: 7 });
  assert.match(await failure(exec), /Expected string but received 7/);
  assert.match(
    await failure({ apiVersion, command: "/no/such/plugin" }),
    /Cannot get a credential from \/no\/such\/plugin: .*ENOENT/,
  );
});

test.run();
