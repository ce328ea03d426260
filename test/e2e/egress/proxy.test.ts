// @limit 1800
// @own-cluster
import { randomBytes } from "node:crypto";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { WorkloadNetwork } from "../../../crds/network.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import type { HttpAnswer } from "./messages.ts";
import { address } from "./namespaces.ts";
import { startTestEnvironment, type TestEnvironment } from "./test-environment.ts";

const test = suite<{ environment: TestEnvironment }>("egress proxy");
/** In no other command line of this machine. */
const secret = `planted-${randomBytes(8).toString("hex")}`;
const token = { name: "github", key: "token" };
const second = { name: "second", key: "value" };
const unset = { name: "absent", key: "value" };
const header = (name: string, secretKeyRef: { name: string; key: string }) => ({ name, valueFrom: { secretKeyRef } });
const network: WorkloadNetwork = {
  access: "restricted",
  allowlist: [
    ...["allowed.example", "*.sub.example", "loopback.example", "loopback6.example", "mapped.example"],
    ...["metadata.example", "private.example", "any.example", "missing.example", "six.example", "local.example"],
  ],
  credentials: [
    { domain: "api.example", headers: [header("Authorization", token), header("X-Second", second)] },
    { domain: "*.wild.example", headers: [header("X-Wild", second)] },
    { domain: "exact.wild.example", headers: [header("X-Exact", token)] },
    { domain: "absent.example", headers: [header("X-Absent", unset)] },
    { domain: "unknown-authority.example", headers: [header("X-Secret", token)] },
    { domain: "other-name.example", headers: [header("X-Secret", token)] },
    { domain: "expired.example", headers: [header("X-Secret", token)] },
    { domain: "inner.example", headers: [header("X-Secret", token)] },
  ],
};
const values = new Map([
  [token, `Bearer ${secret}\n`],
  [second, `odd "value" %[env(HOME)] \${HOME} \\n #x`],
]);
const records = {
  "allowed.example": [address.allowed],
  "deep.er.sub.example": [address.allowed],
  "sub.example": [address.allowed],
  "api.example": [address.allowed],
  "one.wild.example": [address.allowed],
  "exact.wild.example": [address.allowed],
  "two.levels.wild.example": [address.allowed],
  "absent.example": [address.allowed],
  "unlisted.example": [address.other],
  "unknown-authority.example": [address.badCertificates],
  "other-name.example": [address.badCertificates],
  "expired.example": [address.badCertificates],
  "loopback.example": ["127.0.0.1"],
  "loopback6.example": ["::1"],
  "mapped.example": ["::ffff:a9fe:a9fe"],
  "local.example": [address.pod],
  "any.example": ["0.0.0.0"],
  "metadata.example": [address.metadata],
  "private.example": [address.privateHost],
  "inner.example": [address.metadata],
  "six.example": [address.allowed6],
};

test.before(async (context) => {
  context.environment = await startTestEnvironment({ network, values, records });
});
test.after(async ({ environment }) => environment?.stop());

const linesOf = (environment: TestEnvironment) =>
  environment
    .log()
    .split("\n")
    // What follows the last line's end is still being written.
    .slice(0, -1)
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as { reason?: string; name?: string; tenant?: string });

/** The reasons of refusals that were logged for a name. */
const reasons = (environment: TestEnvironment, name: string) =>
  linesOf(environment)
    .filter((line) => line.name === name)
    .map(({ reason }) => reason);

async function refused(environment: TestEnvironment, name: string, reason: string): Promise<void> {
  // To an address of the world, since the proxy goes by the name alone.
  const answer = await environment.call({
    kind: "tls",
    host: address.allowed,
    serverName: name,
    text: "GET / HTTP/1.1\r\n\r\n",
  });
  assert.ok("error" in answer, `${name} answered ${JSON.stringify(answer)}`);
  await untilLogged(environment, name, reason);
}

/** The client hears of a refusal before the log does. */
async function untilLogged(environment: TestEnvironment, name: string, reason: string): Promise<void> {
  await waitUntil(() => reasons(environment, name).length > 0, {
    ...{ what: `the refusal of ${name}`, limitMs: 60_000, explain: () => environment.log() },
  });
  assert.equal(reasons(environment, name), [reason]);
}

for (const version of [1, 2] as const) {
  test(`a listed name passes through untouched over HTTP/${version}`, async ({ environment }) => {
    const seen = await environment.seen({
      version,
      url: "https://allowed.example/",
      headers: { authorization: "mine" },
    });
    assert.is(seen.httpVersion, version === 1 ? "1.1" : "2.0");
    assert.is(seen.serverName, "allowed.example");
    assert.is(seen.headers.authorization, "mine");
  });

  test(`a name with credentials gets its headers over HTTP/${version}, in place of the workload's own`, async ({
    environment,
  }) => {
    const headers = { authorization: "forged", "x-second": "forged", "x-other": "kept" };
    const seen = await environment.seen({ version, url: "https://api.example/", headers });
    assert.is(seen.headers.authorization, `Bearer ${secret}`);
    assert.is(seen.headers["x-second"], values.get(second));
    assert.is(seen.headers["x-other"], "kept");
    assert.is(seen.serverName, "api.example");
    assert.is(seen.httpVersion, "2.0");
  });

  test(`16 MiB go up over HTTP/${version}, passed through and with credentials`, async ({ environment }) => {
    for (const name of ["allowed.example", "api.example"]) {
      const seen = await environment.seen({ version, url: `https://${name}/`, uploadBytes: 16 << 20 });
      assert.is(seen.bytes, 16 << 20);
      assert.is(seen.sha256, seen.sent);
    }
  });

  test(`a stream over HTTP/${version} arrives piece by piece`, async ({ environment }) => {
    for (const name of ["allowed.example", "api.example"]) {
      const answer = await environment.call<string>({ kind: "stream", version, url: `https://${name}/stream` });
      assert.ok("value" in answer, JSON.stringify(answer));
      assert.is(answer.value.split("\n").length, 21);
    }
  });
}

test("WebSocket passes, through and with credentials", async ({ environment }) => {
  for (const name of ["allowed.example", "api.example"]) {
    const messages = ["one", "x".repeat(100_000), "three"];
    const answer = await environment.call<string[]>({ kind: "websocket", url: `wss://${name}/socket`, messages });
    assert.ok("value" in answer, JSON.stringify(answer));
    const [headers = "{}", ...echoed] = answer.value;
    assert.equal(echoed, messages);
    const { authorization } = JSON.parse(headers) as { authorization?: string };
    assert.is(authorization, name === "api.example" ? `Bearer ${secret}` : undefined);
  }
});

test("a name below a wildcard passes, the name itself does not", async ({ environment }) => {
  assert.is((await environment.seen({ version: 1, url: "https://deep.er.sub.example/" })).status, 200);
  await refused(environment, "sub.example", "not-listed");
});

test("a name that is not listed is refused, and each refusal is one line", async ({ environment }) => {
  await refused(environment, "unlisted.example", "not-listed");
  assert.equal(reasons(environment, "allowed.example"), []);
});

test("a forged name reaches the real host of that name alone", async ({ environment }) => {
  const text = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  const answer = await environment.call<string>({
    kind: "tls",
    host: address.other,
    serverName: "allowed.example",
    text,
  });
  assert.ok("value" in answer, JSON.stringify(answer));
  assert.match(answer.value, new RegExp(`"address":"(::ffff:)?${address.allowed}"`));
});

test("a handshake that comes byte by byte is read", async ({ environment }) => {
  const text = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  const call = { kind: "tls", host: address.allowed, text, isSlow: true } as const;
  const allowed = await environment.call<string>({ ...call, serverName: "allowed.example" });
  assert.ok("value" in allowed && allowed.value.includes("200 OK"), JSON.stringify(allowed));
  const other = await environment.call<string>({ ...call, serverName: "byte.example" });
  assert.ok("error" in other, JSON.stringify(other));
  await untilLogged(environment, "byte.example", "not-listed");
});

test("a client that names no server, and one that speaks no TLS, are refused", async ({ environment }) => {
  const silent = await environment.call({ kind: "tls", host: address.allowed });
  assert.ok("error" in silent, JSON.stringify(silent));
  const plain = await environment.call<string>({
    kind: "plain",
    host: address.allowed,
    port: 443,
    text: "GET / HTTP/1.1\r\n\r\n",
  });
  assert.ok("error" in plain || plain.value === "", JSON.stringify(plain));
  await waitUntil(() => environment.log().includes("no-server-name") && environment.log().includes("not-tls"), {
    ...{ what: "both refusals in the log", limitMs: 60_000, explain: () => environment.log() },
  });
});

test("what a client puts into a name stays within one line of the log", async ({ environment }) => {
  const serverName = `a"},{\\nb.example`;
  const answer = await environment.call({ kind: "tls", host: address.allowed, serverName });
  assert.ok("error" in answer);
  await untilLogged(environment, serverName, "illegal-name");
});

test("a name longer than any legal one is cut, and its line whole however much of it is escaped", async ({
  environment,
}) => {
  const serverName = "\u0001".repeat(255);
  assert.ok("error" in (await environment.call({ kind: "tls", host: address.allowed, serverName })));
  await untilLogged(environment, serverName.slice(0, 253), "illegal-name");
});

test("a refusal names the tenant that the pod has at that moment", async ({ environment }) => {
  const tenantOf = (name: string) =>
    linesOf(environment)
      .filter((line) => line.name === name)
      .map(({ tenant }) => tenant);
  const file = join(environment.folder, "tenant");
  await refused(environment, "warm.example", "not-listed");
  assert.equal(tenantOf("warm.example"), [""]);
  for (const [tenant, shown] of [
    ["Alice_1.b-c", "Alice_1.b-c"],
    ['x","level":"info', ""],
    ["two\nlines", "two"],
  ] as const) {
    writeFileSync(file, tenant);
    const name = `claimed-${tenant.length}.example`;
    await refused(environment, name, "not-listed");
    assert.equal(tenantOf(name), [shown]);
  }
  rmSync(file);
});

for (const [name, reason] of [
  ["loopback.example", "closed-address"],
  ["loopback6.example", "closed-address"],
  ["mapped.example", "closed-address"],
  ["any.example", "closed-address"],
  ["metadata.example", "closed-address"],
  ["private.example", "private-address"],
  ["missing.example", "not-resolved"],
] as const) {
  test(`${name} is refused: ${reason}`, ({ environment }) => refused(environment, name, reason));
}

test("a name with credentials that resolves to the metadata address is refused", async ({ environment }) => {
  const answer = await environment.call<HttpAnswer>({ kind: "http", version: 2, url: "https://inner.example/" });
  assert.ok("value" in answer && answer.value.status === 403, JSON.stringify(answer));
  await untilLogged(environment, "inner.example", "closed-address");
});

test("a name with an IPv6 address alone is reached", async ({ environment }) => {
  assert.is((await environment.seen({ version: 1, url: "https://six.example/" })).address, address.allowed6);
});

test("an exact name goes before the wildcard that it is below", async ({ environment }) => {
  const wild = await environment.seen({ version: 1, url: "https://one.wild.example/" });
  assert.equal([wild.headers["x-wild"], wild.headers["x-exact"]], [values.get(second), undefined]);
  const exact = await environment.seen({ version: 1, url: "https://exact.wild.example/" });
  assert.equal([exact.headers["x-wild"], exact.headers["x-exact"]], [undefined, `Bearer ${secret}`]);
});

test("a name too deep for a wildcard's certificate is refused rather than passed without its headers", async ({
  environment,
}) => {
  await refused(environment, "two.levels.wild.example", "too-deep-for-credential");
});

test("a request for another host than the connection's is refused", async ({ environment }) => {
  const answer = await environment.call<HttpAnswer>({
    ...{ kind: "http", version: 1, url: "https://api.example/", headers: { host: "allowed.example" } },
  });
  assert.ok("value" in answer && answer.value.status === 421, JSON.stringify(answer));
});

test("TRACE is refused, since it is answered with the credentials", async ({ environment }) => {
  const answer = await environment.call<HttpAnswer>({
    ...{ kind: "http", version: 1, url: "https://api.example/", method: "TRACE" },
  });
  assert.ok("value" in answer && answer.value.status === 405, JSON.stringify(answer));
});

test("without its value a name answers 503, and comes when the value does", async ({ environment }) => {
  const call = { kind: "http", version: 1, url: "https://absent.example/" } as const;
  const without = await environment.call<HttpAnswer>(call);
  assert.ok("value" in without && without.value.status === 503, JSON.stringify(without));
  for (const bad of ["", "two\nlines", "a\tb"]) {
    await environment.apply({ values: new Map([...values, [unset, bad]]) });
    const still = await environment.call<HttpAnswer>(call);
    assert.ok("value" in still && still.value.status === 503, JSON.stringify(still));
  }
  await environment.apply({ values: new Map([...values, [unset, "here\r\n"]]) });
  assert.is((await environment.seen(call)).headers["x-absent"], "here");
});

for (const name of ["unknown-authority.example", "other-name.example", "expired.example"]) {
  test(`${name}: an upstream with a bad certificate gets no request`, async ({ environment }) => {
    const answer = await environment.call<HttpAnswer>({ kind: "http", version: 1, url: `https://${name}/` });
    assert.ok("value" in answer && answer.value.status === 503, JSON.stringify(answer));
  });
}

test("a rotated Secret is used by the connection's next request's process, while a stream goes on", async ({
  environment,
}) => {
  const stream = environment.call<string>({
    ...{ kind: "stream", version: 2, url: "https://api.example/stream", isHeld: true },
  });
  const goesOn = async () => {
    const answer = await environment.call<HttpAnswer>({
      ...{ kind: "http", version: 2, url: "https://allowed.example/arrived" },
    });
    return "value" in answer && answer.value.body === "streaming";
  };
  await waitUntil(goesOn, { what: "the stream", limitMs: 60_000 });
  await environment.apply({ values: new Map([...values, [token, `rotated-${secret}`]]) });
  assert.is(
    (await environment.seen({ version: 2, url: "https://api.example/" })).headers.authorization,
    `rotated-${secret}`,
  );
  await waitUntil(async () => !(await goesOn()), { what: "the stream's end", limitMs: 60_000, intervalMs: 1 });
  const answer = await stream;
  assert.ok("value" in answer && answer.value.includes("piece 19"), JSON.stringify(answer));
});

test("however often it changes, few processes serve what was open before", async ({ environment }) => {
  for (let change = 0; change < 6; change++) {
    const held = await environment.call({ kind: "hold", url: "wss://api.example/socket" });
    assert.not.ok("error" in held, JSON.stringify(held));
    await environment.apply({ values: new Map([...values, [token, `rotated-${secret}-${change}`]]) });
  }
  await waitUntil(() => environment.proxies().length <= 4, {
    ...{ what: "the oldest to end", limitMs: 60_000, explain: () => environment.proxies().join() },
  });
  assert.is(
    (await environment.seen({ version: 1, url: "https://api.example/" })).headers.authorization,
    `rotated-${secret}-5`,
  );
});

test("no request is lost while settings change", async ({ environment }) => {
  let isChanging = true;
  const versions = [1, 2, 1, 2] as const;
  const made = versions.map(() => 0);
  async function callOn(client: number, version: 1 | 2): Promise<void> {
    for (let calls = 0; isChanging; calls += 1, made[client] = calls) {
      await environment.seen({ version, url: calls % 2 ? "https://api.example/" : "https://allowed.example/" });
    }
  }
  async function change(): Promise<void> {
    try {
      for (let changes = 0; changes < 3 || Math.min(...made) <= 20; changes += 1) {
        await environment.apply({ values: new Map([...values, [token, `changed-${changes}`]]) });
      }
    } finally {
      isChanging = false;
    }
  }
  await Promise.all([change(), ...versions.map((version, client) => callOn(client, version))]);
});

test("a change of the allowlist is followed", async ({ environment }) => {
  await environment.apply({ network: { ...network, allowlist: ["unlisted.example"] } });
  assert.is((await environment.seen({ version: 1, url: "https://unlisted.example/" })).status, 200);
  const gone = await environment.call({ kind: "http", version: 1, url: "https://allowed.example/" });
  assert.ok("error" in gone, JSON.stringify(gone));
  await environment.apply({ network: { access: "restricted", credentials: network.credentials ?? [] } });
  assert.is((await environment.seen({ version: 1, url: "https://allowed.example/" })).status, 200);
  await environment.apply({ network });
});

test("a connection goes on when more is opened, and ends when what it leads to is closed", async ({ environment }) => {
  const more = { ...network, allowlist: [...(network.allowlist ?? []), "more.example"] };
  const stream = environment.call<string>({
    ...{ kind: "stream", version: 2, url: "https://allowed.example/stream", isHeld: true },
  });
  const isStreaming = async () => {
    const answer = await environment.call<HttpAnswer>({
      ...{ kind: "http", version: 2, url: "https://api.example/arrived" },
    });
    return "value" in answer && answer.value.body === "streaming";
  };
  await waitUntil(isStreaming, { what: "the stream", limitMs: 60_000 });
  await environment.apply({ network: more });
  assert.ok(await isStreaming());
  assert.is(await Promise.race([stream, isStreaming()]), true);
  await environment.apply({ network: { ...network, allowlist: ["unlisted.example"] } });
  const ended = await stream;
  // Some clients take the end of the connection for that of the response.
  assert.not.match(JSON.stringify(ended), "piece 19");
  await waitUntil(async () => !(await isStreaming()), { what: "its server to end", limitMs: 60_000, intervalMs: 1 });
  await environment.apply({ network });
});

test("settings that cannot be used are told with the reason, and leave what runs", async ({ environment }) => {
  const settings = join(environment.folder, "settings");
  // The settings of the test before are in use: in a volume, unlike here, no file changes while they are read.
  const unlisted = { kind: "http", version: 1, url: "https://unlisted.example/" } as const;
  await waitUntil(async () => "error" in (await environment.call(unlisted)), {
    ...{ what: "the former settings", limitMs: 60_000, explain: environment.log },
  });
  appendFileSync(join(settings, "haproxy.cfg"), "    no-such-word\n");
  mkdirSync(join(settings, "..2_changed"));
  const told = "the new settings cannot be used, the previous ones stay in use";
  await waitUntil(() => environment.log().includes(told), {
    what: "the refusal",
    limitMs: 60_000,
    explain: environment.log,
  });
  assert.match(environment.log(), /unknown keyword 'no-such-word'/);
  assert.is((await environment.seen({ version: 1, url: "https://allowed.example/" })).status, 200);
  await environment.apply({ network });
});

test("the network is closed but for the proxy and the resolver", async ({ environment }) => {
  for (const host of [address.allowed, address.metadata, address.allowed6, address.world6]) {
    const answer = await environment.call({ kind: "plain", host, port: 80, text: "GET / HTTP/1.1\r\n\r\n" });
    assert.ok("error" in answer, `${host} answered ${JSON.stringify(answer)}`);
  }
  assert.equal(await environment.call({ kind: "datagram", host: address.resolver, port: 53, answerMs: 50_000 }), {
    value: "answered",
  });
  for (const [host, port] of [
    [address.otherResolver, 53],
    [address.allowed, 443],
    [address.metadata, 53],
  ] as const) {
    const answer = await environment.call({ kind: "datagram", host, port, answerMs: 1000 });
    assert.ok("error" in answer, `${host}:${port} answered`);
  }
});

test("refusals are counted, and readiness is answered", async ({ environment }) => {
  const get = (path: string) =>
    environment.namespaces.run("pod", ["curl", "-sS", "-m", "5", `http://${address.pod}:15021${path}`]);
  const denied = async () =>
    Number(/^haproxy_frontend_requests_denied_total\{proxy="redirect"\} ([0-9]+)$/m.exec(await get("/metrics"))?.[1]);
  const before = await denied();
  await refused(environment, "counted.example", "not-listed");
  assert.is(await denied(), before + 1);
  assert.match(await get("/ready"), /200 OK/);
  assert.match(await get("/other"), /404/);
});

test("no secret shows in the log, an argument, or the proxy's settings", async ({ environment }) => {
  const args = await environment.namespaces.run("pod", ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]);
  assert.ok(args.includes("haproxy -db"));
  for (const text of [args, environment.log()]) assert.not.ok(text.includes(secret));
});

test.run();
