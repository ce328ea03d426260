// @own-cluster
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { get } from "node:https";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Binaries, findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { type ApiClient, createApiClient, readKubeconfig } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { isRunning } from "../../../scripts/cluster/process/process-identity.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";

const test = suite<{ binaries: Binaries; one: ControlPlane; client: ApiClient }>("startControlPlane");
const prefix = `test-control-plane-${process.pid}`;

test.before(async (context) => {
  context.binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
  context.one = await startControlPlane({ name: `${prefix}-one`, binaries: context.binaries });
  context.client = createApiClient(context.one.kubeconfigPath);
});
test.after(async ({ one, client }) => {
  client.close();
  await one.stop();
});

async function createConfigMap(client: ApiClient, name: string): Promise<string> {
  const { status, text } = await client.call({
    ...{ method: "POST", path: "/api/v1/namespaces/default/configmaps" },
    body: { metadata: { name } },
  });
  assert.is(status, 201, text);
  return (JSON.parse(text) as { metadata: { resourceVersion: string } }).metadata.resourceVersion;
}

function watchFrom(client: ApiClient, resourceVersion: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const abort = new AbortController();
    const path = `/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=60&resourceVersion=${resourceVersion}`;
    const onLine = (line: Buffer): void => {
      resolve(line.toString("utf8"));
      abort.abort();
    };
    client.lines(path, onLine, abort.signal).catch((error: Error) => {
      if (!abort.signal.aborted) reject(error);
    });
  });
}

test("runs two at once that know nothing of each other; one that stops leaves no process and no folder", async (context) => {
  const { binaries, one, client } = context;
  const two = await startControlPlane({ name: `${prefix}-two`, binaries });
  const identities = [two.etcd.program.identity, two.apiServer.identity()];
  const other = createApiClient(two.kubeconfigPath);
  try {
    assert.is.not(one.server, two.server);
    await createConfigMap(client, "mine");
    assert.is((await other.call({ method: "GET", path: "/api/v1/namespaces/default/configmaps/mine" })).status, 404);
    assert.ok(identities.every(isRunning));
  } finally {
    other.close();
    await two.stop();
  }
  assert.not.ok(identities.some(isRunning));
  assert.not.ok(existsSync(two.folder));
});

test("refuses a name that is in use, and leaves the one that uses it alone", async ({ binaries, one, client }) => {
  await startControlPlane({ name: one.name, binaries }).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /its etcd runs already \(process \d+\)/),
  );
  assert.is((await client.call({ method: "GET", path: "/readyz" })).status, 200);
});

test("lets a client certificate do what RBAC lets its user do", async ({ one }) => {
  const jane = await one.clientCertificate({ user: "jane", groups: ["developers"] });
  const master = await one.clientCertificate({ user: "root", groups: ["system:masters"] });
  const statusOf = async (kubeconfigPath: string): Promise<number> => {
    const client = createApiClient(kubeconfigPath);
    const { status } = await client.call({ method: "GET", path: "/api/v1/namespaces/default/pods" });
    client.close();
    return status;
  };
  assert.is(await statusOf(jane.kubeconfigPath), 403);
  assert.is(await statusOf(master.kubeconfigPath), 200);
  const expired = await one.clientCertificate({ user: "jane", days: -1 });
  assert.is(await statusOf(expired.kubeconfigPath), 401);
});

test("keeps its kubeconfig and its tokens from other users", ({ one }) => {
  for (const path of [one.kubeconfigPath, join(one.folder, "pki", "tokens.csv")]) {
    assert.is(statSync(path).mode & 0o777, 0o600, path);
  }
  assert.is(statSync(join(one.folder, "pki")).mode & 0o777, 0o700);
});

test("knows its administrator by a token, which is checked faster than a certificate", async ({ one }) => {
  const { tls, headers } = readKubeconfig(one.kubeconfigPath);
  assert.match(headers.authorization ?? "", /^Bearer [\w-]{43}$/);
  assert.is(tls.cert, undefined);
  const statusOf = (authorization: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const url = new URL("/api/v1/namespaces", one.server);
      get(url, { ca: tls.ca, headers: { authorization } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      }).once("error", reject);
    });
  assert.is(await statusOf(headers.authorization ?? ""), 200);
  assert.is(await statusOf(`${headers.authorization}x`), 401);
});

test("listens on loopback only", ({ one }) => {
  const pids = [one.etcd.program.identity.pid, one.apiServer.identity().pid];
  const inodes = new Set(pids.flatMap(socketInodes));
  const listening = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) =>
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === "0A" && inodes.has(fields[9] ?? ""))
      .map((fields) => fields[1]?.split(":")[0]),
  );
  assert.ok(listening.length >= 3);
  assert.ok(
    listening.every((address) => address === "0100007F"),
    `listens on ${listening.join(", ")}`,
  );
});

function socketInodes(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    const inode = /^socket:\[(\d+)\]$/.exec(readLinkIfThere(`/proc/${pid}/fd/${name}`))?.[1];
    return inode === undefined ? [] : [inode];
  });
}

/** What a file descriptor is of; nothing when it was closed meanwhile. */
function readLinkIfThere(path: string): string {
  try {
    return readlinkSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

test("comes back with its data on the same port after a crash, with other flags if wanted", async ({ one, client }) => {
  const early = await createConfigMap(client, "kept");
  await one.apiServer.kill();
  await client.call({ method: "GET", path: "/readyz" }).then(
    () => assert.unreachable(),
    (error: NodeJS.ErrnoException) => assert.match(error.code ?? "", /ECONNREFUSED|ECONNRESET/),
  );
  await one.apiServer.start({ extraFlags: ["--watch-cache=false"] });
  assert.is((await client.call({ method: "GET", path: "/api/v1/namespaces/default/configmaps/kept" })).status, 200);
  await createConfigMap(client, "later");
  assert.match(await watchFrom(client, early), /"type":"ADDED".*"name":"later"/);
  await createConfigMap(client, "latest");
  await one.etcd.compact();
  assert.match(await watchFrom(client, early), /"type":"ERROR".*"code":410/);
  await one.apiServer.stop();
  await one.apiServer.start();
});

test("says what the API server said when it does not start", async ({ binaries }) => {
  const options = { name: `${prefix}-bad`, binaries, apiServerFlags: ["--no-such-flag"] };
  await startControlPlane(options).then(
    () => assert.unreachable(),
    (error: Error) =>
      assert.match(error.message, /Cannot start kube-apiserver: exit status 1[\s\S]*unknown flag: --no-such-flag/),
  );
});

test.run();
