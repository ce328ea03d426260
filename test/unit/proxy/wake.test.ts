// @runtimes bun node deno
// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { createKnownTenants } from "../../../edge/proxy/wake/known-tenants.ts";
import { eventually } from "../../eventually.ts";
import { FakeCluster } from "../edge/fake-cluster.ts";
import { hurriedClock, manualClock } from "../manual-clock.ts";
import { startPod } from "./fake-pod.ts";
import { get, KEY, namesOf, startDoor, type TestDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("waking at the front door");
test.after.each(closeAll);

const NAME = "claim-alice-app";
const HOST = "app--alice.apps.test";
const key = `X-Tenancy-Key: ${KEY}`;

/** The operator's part: makes the claim that was created Active, with a pod at the port. */
async function activate(door: TestDoor, port: number, instanceId = "inst-alice-app-1"): Promise<void> {
  await eventually(() => door.cluster.verbs().includes("create"));
  const endpoint = { host: "127.0.0.1", port };
  door.cluster.setStatus(NAME, { phase: "Active", source: "pool", instanceId, endpoint });
}

const creates = (door: TestDoor) => door.cluster.calls.filter(({ verb }) => verb === "create");

test("a hundred requests at once make one claim with resume, and each is sent once", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const pod = await startPod();
  const asked = Array.from({ length: 100 }, (_, index) => door.ask(get(HOST, `/${index}`, key)));
  await activate(door, pod.target.port);
  for (const answer of await Promise.all(asked)) assert.match(answer, /^HTTP\/1.1 200 /);
  assert.is(creates(door).length, 1);
  const [created] = creates(door);
  assert.equal((created?.body as Claim | undefined)?.spec, { tenantId: "alice", workloadRef: "app", resume: true });
  const paths = [...pod.received().matchAll(/^GET \/(\d+) /gm)].map(([, index]) => Number(index)).sort((a, b) => a - b);
  assert.equal(
    paths,
    Array.from({ length: 100 }, (_, index) => index),
  );
  assert.match(await door.registry.metrics(), /tenancy_proxy_wake_seconds_count\{source="pool"\} 1\n/);
  assert.match(await door.registry.metrics(), /tenancy_proxy_requests_total\{workload="app",code="2xx"\} 100\n/);
});

test("a warm pod is asked for once, after the connection, and once more where the watch does not show it yet", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const pod = await startPod();
  const gets = () => door.cluster.calls.filter(({ verb, name }) => verb === "get" && name.startsWith("inst-")).length;
  const asked = door.ask(get(HOST, "/", key));
  await activate(door, pod.target.port);
  assert.match(await asked, /^HTTP\/1.1 200 /);
  assert.is(gets(), 1);

  const late = door.ask(get("app--bob.apps.test", "/", key));
  await eventually(() => creates(door).length === 2);
  const claim = door.cluster.claim("claim-bob-app");
  const status = {
    phase: "Active",
    source: "pool",
    instanceId: "inst-bob-app-1",
    endpoint: { host: "127.0.0.1", port: pod.target.port },
  } as const;
  door.cluster.lag = true;
  door.cluster.podOf({ ...claim, status });
  door.cluster.lag = false;
  door.cluster.setStatus("claim-bob-app", status);
  assert.match(await late, /^HTTP\/1.1 200 /);
  assert.is(gets(), 3);
});

test("a body that comes while the pod starts arrives whole", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const pod = await startPod(({ socket, text }) => {
    if (text.endsWith("hello")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const wire = door.wire(`PUT /p HTTP/1.1\r\nHost: ${HOST}\r\n${key}\r\nContent-Length: 5\r\n\r\nhello`);
  await activate(door, pod.target.port);
  await wire.seen("ok");
});

test("who is let in is told why an instance does not start, and others that it did not", async () => {
  const door = await startDoor();
  for (const expose of ["key", "public"] as const) door.addWorkload(expose, expose);
  for (const workloadRef of ["key", "public"]) {
    door.cluster.addClaim({
      tenantId: "alice",
      workloadRef,
      status: { phase: "ReleaseFailed", message: "<secret> log" },
    });
  }
  const told = await door.ask(get("key--alice.apps.test", "/", key));
  assert.match(told, /^HTTP\/1.1 503 [\s\S]*\r\nRetry-After: 1\r\n[\s\S]*\{"error":"<secret> log"\}$/);
  const stranger = await door.ask(get("public--alice.apps.test"));
  assert.match(stranger, /^HTTP\/1.1 503 [\s\S]*\{"error":"the instance could not be started; try again later"\}$/);
});

test("a failure is shared for a second, so that a broken workload is not claimed for each request", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const first = door.ask(get(HOST, "/", key));
  await eventually(() => creates(door).length === 1);
  door.cluster.setStatus(NAME, { phase: "Error", reason: "ImagePullFailed", message: "no such image" });
  assert.match(await first, "no such image");
  const calls = door.cluster.calls.length;
  for (let count = 0; count < 5; count += 1) assert.match(await door.ask(get(HOST, "/", key)), "no such image");
  assert.is(door.cluster.calls.length, calls);
});

test("a request that has waited too long is a 503 that says so, and the claim stays", async () => {
  const door = await startDoor({ config: { waitMs: 200 } });
  door.addWorkload("app", "key");
  const answer = await door.ask(get(HOST, "/", key));
  assert.match(answer, /^HTTP\/1.1 503 [\s\S]*is not ready for tenant \\"alice\\" after/);
  assert.ok(door.cluster.claim(NAME));
});

test("a browser sees a page that asks again, with the reason in it, and then its pod; the claim is one", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const browser = get(HOST, "/p", key, "Accept: text/html,*/*;q=0.8", "Sec-Fetch-Dest: document");
  const asked = door.ask(browser);
  await eventually(() => creates(door).length === 1);
  door.cluster.setStatus(NAME, { phase: "Pending", message: `waits for <b>"quota"` });
  const page = await asked;
  assert.match(page, /^HTTP\/1.1 503 [\s\S]*\r\nRetry-After: 1\r\n/);
  assert.match(page, "\r\nContent-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n");
  assert.match(
    page,
    "\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n",
  );
  assert.match(page, '<meta http-equiv="refresh" content="1">');
  assert.match(page, "<p>waits for &#60;b&#62;&#34;quota&#34;</p>");
  assert.not.match(page, "<b>");
  const pod = await startPod();
  await activate(door, pod.target.port);
  assert.match(await door.ask(browser), /^HTTP\/1.1 200 /);
  assert.is(creates(door).length, 1);
});

test("a stranger's page does not say what a public instance waits for", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const status = { phase: "Pending", message: "a secret of the log" } as const;
  door.cluster.addClaim({ tenantId: "alice", workloadRef: "app", status });
  const page = await door.ask(get(HOST, "/", "Accept: text/html"));
  assert.match(page, /^HTTP\/1.1 503 [\s\S]*<h1>Starting<\/h1>/);
  assert.not.match(page, "secret");
});

test("what a page loads, what it posts, and what is at a path waits instead", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const pod = await startPod();
  const lines = [key, "Accept: text/html"];
  const asked = [
    door.ask(get(HOST, "/frame", ...lines, "Sec-Fetch-Dest: iframe")),
    door.ask(get(HOST, "/image", key, "Accept: image/png")),
    door.ask(get("apps.test", "/t/alice/app/", ...lines)),
    door.ask(`POST /form HTTP/1.1\r\nHost: ${HOST}\r\n${lines.join("\r\n")}\r\nContent-Length: 0\r\n\r\n`),
  ];
  await new Promise((resolve) => setTimeout(resolve, 1200));
  await activate(door, pod.target.port);
  for (const answer of await Promise.all(asked)) assert.match(answer, /^HTTP\/1.1 200 /);
});

test("nobody wakes public instances for tenants that were never there; those with files are woken", async () => {
  let lists = 0;
  const listArchives = async () => {
    lists += 1;
    return [{ tenantId: "alice", workloadRef: "app" }];
  };
  const door = await startDoor({ listArchives, clock: hurriedClock });
  door.addWorkload("app", "public");
  for (const tenant of ["eve", "mallory", "eve"])
    assert.match(await door.ask(get(`app--${tenant}.apps.test`)), /^HTTP\/1.1 404 /);
  assert.is(lists, 2, "one look at each");
  assert.equal(door.cluster.calls, []);
  const pod = await startPod();
  const asked = door.ask(get(HOST));
  await activate(door, pod.target.port);
  assert.match(await asked, /^HTTP\/1.1 200 /);
  const byKey = door.ask(get("app--new.apps.test", "/", key));
  await eventually(() => creates(door).length === 2);
  door.cluster.setStatus("claim-new-app", { phase: "Error", reason: "QuotaExceeded", message: "full" });
  assert.match(await byKey, "503");
});

test("strangers who wake many instances leave places to those who have the key", async () => {
  const archives = Array.from({ length: 101 }, (_, index) => ({ tenantId: `t${index}`, workloadRef: "app" }));
  const door = await startDoor({ listArchives: async () => archives });
  door.addWorkload("app", "public");
  // Fewer at once than may ask whether their tenant is known.
  for (let at = 0; at < 100; at += 20) {
    for (const { tenantId } of archives.slice(at, at + 20)) door.wire(get(`app--${tenantId}.apps.test`));
    await eventually(() => creates(door).length === at + 20);
  }
  assert.match(await door.ask(get("app--t100.apps.test")), /^HTTP\/1.1 503 /);
  assert.is(creates(door).length, 100);
  door.wire(get("app--t100.apps.test", "/", key));
  await eventually(() => creates(door).length === 101);
});

test("KnownTenants: a claim that was released after the list counts, until the store is asked again", async () => {
  const clock = manualClock();
  const cluster = new FakeCluster();
  const archives: { tenantId: string; workloadRef: string }[] = [];
  const known = createKnownTenants({ claims: cluster.cache.claims, readNames: namesOf(async () => archives), clock });
  const alice = { tenantId: "alice", workloadRef: "app" };
  assert.is(await known.has(alice), false);
  known.onReleased(alice);
  assert.is(known.has(alice), true);
  archives.push(alice);
  await clock.pass(121_000);
  assert.is(await known.has(alice), true);
  archives.pop();
  await clock.pass(59_000);
  assert.is(known.has(alice), true);
  await clock.pass(1000);
  assert.is(await known.has(alice), false);
  assert.is(known.has(alice), false, "it is remembered");
});

test("archives that cannot be listed are a 503, not a 404", async () => {
  const door = await startDoor({ listArchives: () => Promise.reject(new Error("no volume")) });
  door.addWorkload("app", "public");
  assert.match(await door.ask(get(HOST)), /^HTTP\/1.1 503 [\s\S]*Retry-After: 1/);
});

test("KnownTenants: archives that cannot be listed are tried again after some seconds, however many ask", async () => {
  const clock = manualClock();
  let lists = 0;
  const listArchives = async (): Promise<never> => {
    lists += 1;
    throw new Error(`no volume, ${lists}`);
  };
  const known = createKnownTenants({ claims: new FakeCluster().cache.claims, readNames: namesOf(listArchives), clock });
  const ask = (tenantId: string) => Promise.resolve(known.has({ tenantId, workloadRef: "app" })).catch(String);
  for (const tenant of ["eve", "mallory", "trudy"]) assert.is(await ask(tenant), "Error: no volume, 1");
  await clock.pass(5000);
  assert.is(await ask("eve"), "Error: no volume, 2");
});

test("the wait ends when its last visitor goes, some seconds later, and the claim stays", async () => {
  const door = await startDoor({ clock: hurriedClock });
  door.addWorkload("app", "key");
  const wires = [door.wire(get(HOST, "/", key)), door.wire(get(HOST, "/", key))];
  await eventually(() => creates(door).length === 1);
  for (const { socket } of wires) socket.destroy();
  await eventually(() => door.accessed.length === 2);
  assert.equal(
    door.accessed.map(({ status, tenant }) => [status, tenant]),
    [
      [499, "alice"],
      [499, "alice"],
    ],
  );
  const waiting = async () => Number(/^tenancy_proxy_waking (\d+)$/m.exec(await door.registry.metrics())?.[1]);
  assert.is(await waiting(), 1);
  await eventually(async () => (await waiting()) === 0);
  assert.is(door.cluster.waiters.size, 0);
  assert.ok(door.cluster.claim(NAME));
});

test("a pod that does not listen yet is tried again for some seconds", async () => {
  const clock = manualClock();
  const door = await startDoor({ clock });
  door.addWorkload("app", "key");
  const { pod, status } = await door.addInstance("alice", "app");
  const endpoint = { host: "127.0.0.1", port: 1 };
  door.cluster.setStatus(NAME, { ...status, endpoint });
  const asked = door.ask(get(HOST, "/", key));
  for (let tries = 0; tries < 3; tries += 1) await clock.runWhenNextIs(100);
  await eventually(() => clock.nextIn() === 100);
  door.cluster.setStatus(NAME, { ...status, endpoint: { ...endpoint, port: pod.target.port } });
  assert.match(await asked, /^HTTP\/1.1 200 /);
});

test("a pod that never listens is a 502", async () => {
  const door = await startDoor({ clock: hurriedClock });
  door.addWorkload("app", "key");
  const { status } = await door.addInstance("alice", "app");
  door.cluster.setStatus(NAME, { ...status, endpoint: { host: "127.0.0.1", port: 1 } });
  const startedAt = hurriedClock.now();
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 502 [\s\S]*the pod cannot be reached/);
  assert.ok(hurriedClock.now() - startedAt >= 5000);
});

test("nothing goes to an address that the API server says is another's, whatever the caches say", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod, status, claim } = await door.addInstance("alice", "app");
  const another = await startPod();
  door.cluster.lag = true;
  door.cluster.podOf(claim, { podIP: "127.0.0.2" });
  const wire = door.wire(get(HOST, "/", key));
  await eventually(() => pod.connections.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 100));
  door.cluster.lag = false;
  door.cluster.setStatus(NAME, { ...status, endpoint: { host: "127.0.0.1", port: another.target.port } });
  door.cluster.podOf(claim, { podIP: "127.0.0.1" });
  await wire.seen("200 OK");
  assert.is(pod.received(), "");
  assert.not.equal(another.received(), "");
});

test("a pod of another claim under the same name gets nothing", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod, claim } = await door.addInstance("alice", "app");
  for (const other of [{ uid: "another" }, { tenantId: "bob" }]) {
    door.cluster.podOf(claim, other);
    const wire = door.wire(get(HOST, "/", key));
    await new Promise((resolve) => setTimeout(resolve, 150));
    wire.socket.destroy();
    assert.is(pod.received(), "");
  }
});

test("an API server that cannot be asked is a 503; a kept connection goes on without it", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app");
  const wire = door.wire(get(HOST, "/", key));
  await wire.seen("ok");
  const asked = door.cluster.calls.length;
  wire.socket.write(get(HOST, "/", key));
  await eventually(() => pod.received().split("GET ").length === 3);
  assert.is(door.cluster.calls.length, asked, "no call for a kept connection");
  pod.connections[0]?.destroy();
  door.cluster.onNext("get", new NetworkError("no route", { requestWasSent: true }));
  const answer = await door.ask(get(HOST, "/", key));
  assert.match(answer, /^HTTP\/1.1 503 [\s\S]*the cluster cannot be reached/);
});

test("a request at a pod that is lost ends with 502, at one that is released with 503", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  for (const [tenant, status] of [
    ["lost", 502],
    ["released", 503],
  ] as const) {
    const { pod, claim } = await door.addInstance(tenant, "app", () => undefined);
    const wire = door.wire(get(`app--${tenant}.apps.test`, "/", key));
    await eventually(() => pod.received() !== "");
    if (tenant === "released")
      await door.cluster.client.delete(claims, { namespace: "tenancy", name: claim.metadata.name });
    const name = claim.status?.instanceId ?? "";
    const object = door.cluster.cache.pods.store.get(`tenancy/${name}`);
    if (object === undefined) throw new Error("no pod");
    door.cluster.removePod(name);
    door.proxy.onPod({ type: "deleted", object });
    await wire.seen(`HTTP/1.1 ${status} `);
  }
});

test("a request of which nothing was sent goes to the next pod, where the first is lost meanwhile", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod, status } = await door.addInstance("alice", "app");
  const next = await startPod();
  const name = status.instanceId ?? "";
  const object = door.cluster.cache.pods.store.get(`tenancy/${name}`);
  if (object === undefined) throw new Error("no pod");
  // The pod goes, and the watch says so, while its address is being confirmed.
  door.cluster.onNext("get", () => {
    door.cluster.removePod(name);
    door.proxy.onPod({ type: "deleted", object });
  });
  const asked = door.ask(get(HOST, "/", key));
  await eventually(() => door.cluster.cache.pods.store.get(`tenancy/${name}`) === undefined);
  const endpoint = { host: "127.0.0.1", port: next.target.port };
  door.cluster.setStatus(NAME, { ...status, instanceId: "inst-alice-app-2", endpoint });
  assert.match(await asked, /^HTTP\/1.1 200 /);
  assert.is(pod.received(), "");
});

test("a release leaves requests their time, ends them with 503 after it and WebSockets at once, and says so", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  const { pod, status } = await door.addInstance("alice", "app", ({ socket, text, done }) => {
    if (text.includes("GET /ws")) socket.write(switched);
    done();
  });
  const socket = door.wire(get(HOST, "/ws", key, "Connection: Upgrade", "Upgrade: websocket"));
  await socket.seen("101");
  const quick = door.wire(get(HOST, "/quick", key));
  await eventually(() => pod.received().includes("/quick"));
  const slow = door.wire(get(HOST, "/slow", key));
  await eventually(() => pod.received().includes("/slow"));
  const said = () =>
    door.cluster.calls.flatMap(({ verb, name, body }) => {
      const { annotations = {} } =
        (body as { metadata?: { annotations?: Record<string, string | null> } })?.metadata ?? {};
      const until = annotations["inflight.tenancy.dev/door"];
      return verb === "patch" && name === status.instanceId && until !== undefined ? [until] : [];
    });
  await eventually(() => said().length === 1);
  const previous = door.cluster.claim(NAME);
  await door.cluster.client.delete(claims, { namespace: "tenancy", name: NAME });
  door.proxy.onClaim({ type: "modified", object: door.cluster.claim(NAME), previous });
  await socket.closed;
  pod.connections[1]?.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await quick.seen("\r\n\r\nok");
  assert.is(said().length, 1, "the slow one is still in flight");
  await slow.seen("HTTP/1.1 503 ");
  await eventually(() => said().length === 2);
  assert.is(said()[1], null);
});

test("a claim that is being released is waited out, and claimed anew", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app");
  await door.cluster.client.delete(claims, { namespace: "tenancy", name: NAME });
  const asked = door.ask(get(HOST, "/", key));
  await eventually(() => door.cluster.waiters.size === 1);
  assert.is(pod.received(), "");
  door.cluster.removeClaim(NAME);
  await activate(door, pod.target.port, "inst-alice-app-2");
  assert.match(await asked, /^HTTP\/1.1 200 /);
});

test("a destroyed pod is replaced", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const pod = await startPod();
  const instanceId = "inst-alice-app-1";
  const endpoint = { host: "127.0.0.1", port: 1 };
  const status = { phase: "Active", instanceId, endpoint } as const;
  door.cluster.addClaim({ tenantId: "alice", workloadRef: "app", status, destroyed: instanceId });
  door.cluster.removePod(instanceId);
  const asked = door.ask(get(HOST, "/", key));
  await eventually(() => door.cluster.claim(NAME).metadata.annotations?.[annotation.attempt] !== undefined);
  door.cluster.setStatus(NAME, {
    ...status,
    instanceId: "inst-alice-app-2",
    endpoint: { ...endpoint, port: pod.target.port },
  });
  assert.match(await asked, /^HTTP\/1.1 200 /);
});

test("a tenant's rates count its requests, and the bytes of both ways, also those of strangers", async () => {
  const counted: [string, number, boolean | undefined][] = [];
  const asked: (boolean | undefined)[] = [];
  const rates = {
    admit(tenantId: string, by?: { isStranger: boolean }) {
      asked.push(by?.isStranger);
      if (counted.length < 1) return;
      throw new HttpError(429, `tenant "${tenantId}" has used up its requests`, { headers: { "retry-after": "7" } });
    },
    addBytes: (tenantId: string, bytes: number, by?: { isStranger: boolean }) =>
      void counted.push([tenantId, bytes, by?.isStranger]),
  };
  const door = await startDoor({ rates });
  door.addWorkload("app", "public");
  await door.addInstance("alice", "app");
  const post = get(HOST).replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello");
  const answer = await door.ask(post);
  assert.match(answer, /^HTTP\/1.1 200 /);
  const body = answer.slice(answer.indexOf("\r\n\r\n") + 4);
  await eventually(() => counted.length > 0);
  assert.equal(counted, [["alice", 5 + body.length, true]]);
  const stranger = await door.ask(get(HOST));
  assert.match(stranger, /^HTTP\/1.1 429 [\s\S]*Retry-After: 7\r\n[\s\S]*too many requests to this address/);
  assert.not.match(stranger, "alice");
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 429 [\s\S]*alice\\" has used up/);
  // Of a tenant that may not exist, the same as without a quota.
  assert.match(await door.ask(get("app--eve.apps.test")), /^HTTP\/1.1 404 /);
  assert.equal(asked, [true, true, false]);
});

test("more requests of one tenant than may be are refused, and others come in", async () => {
  const door = await startDoor({ config: { tenantConnections: 2 } });
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app", () => undefined);
  await door.addInstance("bob", "app");
  const open = [door.wire(get(HOST, "/", key)), door.wire(get(HOST, "/", key))];
  await eventually(() => pod.received().split("GET ").length === 3);
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 503 [\s\S]*too many requests/);
  assert.match(await door.ask(get("app--bob.apps.test", "/", key)), /^HTTP\/1.1 200 /);
  open[0]?.socket.destroy();
  await eventually(() => door.accessed.some(({ status }) => status === 499));
  const bad = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n${key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx`;
  for (let count = 0; count < 3; count += 1) assert.match(await door.ask(bad), /^HTTP\/1.1 400 /);
  const again = door.wire(get(HOST, "/", key));
  await eventually(() => pod.received().split("GET ").length === 4);
  again.socket.destroy();
});

test("strangers at a public workload leave half of the tenant's places to those who have a link or the key", async () => {
  const door = await startDoor({ config: { tenantConnections: 4 } });
  door.addWorkload("app", "public");
  door.addWorkload("own", "link");
  const { pod } = await door.addInstance("alice", "app", () => undefined);
  await door.addInstance("alice", "own");
  const strangers = [door.wire(get(HOST)), door.wire(get(HOST))];
  await eventually(() => pod.received().split("GET ").length === 3);
  for (let count = 0; count < 3; count += 1)
    assert.match(await door.ask(get(HOST)), /^HTTP\/1.1 503 [\s\S]*too many requests/);
  const grant = { workload: "own", tenantId: "alice", expiresAt: Math.floor(Date.now() / 1000) + 3600 };
  const byLink = `/?tenancy-token=${door.tokens.sign("link", grant)}`;
  assert.match(await door.ask(get("apps.test", `/t/alice/own${byLink}`)), /^HTTP\/1.1 200 /);
  assert.match(await door.ask(get("own--alice.apps.test", "/", key)), /^HTTP\/1.1 200 /);
  const insiders = [door.wire(get(HOST, "/", key)), door.wire(get(HOST, "/", key))];
  await eventually(() => pod.received().split("GET ").length === 5);
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 503 /);
  strangers[0]?.socket.destroy();
  await eventually(() => door.accessed.some(({ status }) => status === 499));
  const again = door.wire(get(HOST));
  await eventually(() => pod.received().split("GET ").length === 6);
  for (const { socket } of [...strangers, ...insiders, again]) socket.destroy();
});

test("requests and traffic are use of the pod; an open WebSocket without any is not", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  const { pod, status } = await door.addInstance("alice", "app", ({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    socket.write(switched);
  });
  const wire = door.wire(get(HOST, "/", key, "Connection: Upgrade", "Upgrade: websocket"));
  await wire.seen("101");
  assert.equal(door.touched, [status.instanceId]);
  wire.socket.write("frame");
  await eventually(() => pod.received().endsWith("frame"));
  wire.socket.write("again");
  await eventually(() => pod.received().endsWith("again"));
  assert.equal(door.touched, [status.instanceId, status.instanceId], "once a second at most");
  wire.socket.destroy();
  await eventually(() => door.accessed.length === 1);
  const [line] = door.accessed;
  assert.is(line?.status, 101);
  assert.is(line?.pod, status.instanceId);
  assert.is(line?.tenant, "alice");
  assert.is(line?.received, 10);
});

test("a request outlives a clock that is set forward", async () => {
  const clock = manualClock();
  const door = await startDoor({ clock });
  door.addWorkload("app", "key");
  let answer: (() => void) | undefined;
  await door.addInstance("alice", "app", ({ socket }) => {
    answer = () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  const asked = door.ask(get(HOST, "/", key));
  await eventually(() => answer !== undefined);
  clock.set(clock.now() + 86_400_000);
  await clock.pass(2000);
  answer?.();
  assert.match(await asked, /^HTTP\/1.1 200 /);
});

test.run();
