// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { startPod } from "./fake-pod.ts";
import { get, KEY, startDoor, type TestDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("requests at the front door whose instance is released");
test.after.each(closeAll);

const NAME = "claim-alice-app";
const HOST = "app--alice.apps.test";
const key = `X-Tenancy-Key: ${KEY}`;
const upload = `PUT /file HTTP/1.1\r\nHost: ${HOST}\r\n${key}\r\nContent-Length: 5\r\n\r\nhello`;
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** The release begins at the API server, and no watch shows it. */
async function releaseUnseen({ cluster }: TestDoor): Promise<void> {
  cluster.lag = true;
  await cluster.client.delete(claims, { namespace: "tenancy", name: NAME });
}

const saysInFlight = ({ cluster }: TestDoor): boolean =>
  cluster.calls.some(
    ({ verb, body }) => verb === "patch" && JSON.stringify(body).includes("inflight.tenancy.dev/door"),
  );
const looksAtClaim = ({ cluster }: TestDoor): number =>
  cluster.calls.filter(({ verb, name }) => verb === "get" && name === NAME).length;

test("an upload that a release may have missed is not acknowledged", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app");
  await releaseUnseen(door);
  const answer = await door.ask(upload);
  assert.match(pod.received(), "hello");
  assert.match(answer, /^HTTP\/1.1 503 [\s\S]*may not save this/);
  assert.equal(
    door.accessed.map(({ status }) => status),
    [503],
  );
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 200 /, "what changes nothing is answered");
});

/** An upload whose pod answers when it is told to, once the claim has been looked at, on clocks of the test's own. */
async function startUpload() {
  const day = manualClock();
  // Counts from the process's start, as the real one.
  const steady = manualClock("1970-01-01T00:00:01Z");
  const door = await startDoor({ clock: day, steady });
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app", () => undefined);
  const answer = door.ask(upload);
  await eventually(() => pod.received().includes("hello") && looksAtClaim(door) === 1);
  return {
    door,
    day,
    async pass(seconds: number) {
      for (let count = 0; count < seconds; count += 1) await Promise.all([day.pass(1000), steady.pass(1000)]);
    },
    async answered() {
      pod.connections[0]?.write(OK);
      return (await answer).slice(9, 12);
    },
  };
}

test("an upload that a release waits for is acknowledged for 12 s, however long ago the claim was looked at", async () => {
  const inTime = await startUpload();
  await inTime.pass(100);
  await releaseUnseen(inTime.door);
  await inTime.pass(11);
  assert.is(await inTime.answered(), "200");
  const late = await startUpload();
  await late.pass(100);
  await releaseUnseen(late.door);
  await late.pass(12);
  assert.is(await late.answered(), "503");
});

test("an upload is not acknowledged where the pod did not say all the time that it is in flight", async () => {
  const { door, pass, answered } = await startUpload();
  door.cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
  // It says so for two minutes, and again each minute.
  await pass(125);
  await releaseUnseen(door);
  await pass(1);
  assert.is(await answered(), "503");
});

test("a clock that is set back makes no old look at a claim a recent one", async () => {
  const { door, day, pass, answered } = await startUpload();
  await pass(100);
  await releaseUnseen(door);
  await pass(12);
  day.set(day.now() - 105_000);
  door.cluster.removeClaim(NAME);
  assert.is(await answered(), "503");
});

test("the pod says that a request is in flight before the claim is looked at, once for many uploads", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  await door.addInstance("alice", "app");
  const answers = await Promise.all(Array.from({ length: 20 }, () => door.ask(upload)));
  for (const answer of answers) assert.match(answer, /^HTTP\/1.1 200 /);
  const order = door.cluster.calls.map(({ verb, name }) => `${verb} ${name}`);
  assert.ok(saysInFlight(door));
  assert.ok(order.indexOf(`get ${NAME}`) > order.indexOf("patch inst-alice-app-1"), order.join());
  assert.is(looksAtClaim(door), 1);
});

test("an answer is held back whole until the claim has been looked at, and what the pod closes goes on too", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  await door.addInstance("alice", "app", ({ socket, text }) => {
    if (text.endsWith("hello")) socket.end("HTTP/1.1 200 OK\r\n\r\nuntil the end");
  });
  for (const verb of ["patch", "patch"] as const)
    door.cluster.onNext(verb, new NetworkError("refused", { requestWasSent: false }));
  const answer = await door.ask(upload);
  assert.match(answer, /^HTTP\/1.1 200 [\s\S]*until the end/);
  assert.is(looksAtClaim(door), 1);
});

test("a refusal of the pod is not held back, nor are reads", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  await door.addInstance("alice", "app", ({ socket, text }) => {
    if (text.endsWith("hello")) socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    else if (text.startsWith("GET")) socket.end(OK);
  });
  await releaseUnseen(door);
  assert.match(await door.ask(upload), /^HTTP\/1.1 403 /);
  const looks = looksAtClaim(door);
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 200 /);
  assert.is(looksAtClaim(door), looks);
});

test("a client that goes while its answer is held back leaves nothing behind", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app");
  for (let count = 0; count < 3; count += 1)
    door.cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
  const wire = door.wire(upload);
  await eventually(() => pod.received().includes("hello"));
  wire.socket.destroy();
  await eventually(() => door.accessed.length === 1);
  assert.is(door.accessed[0]?.status, 499);
  assert.match(await door.ask(get(HOST, "/", key)), /^HTTP\/1.1 200 /);
});

test("a pod that is lost before anything was sent to it is no answer: the request goes to the next one", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod, status } = await door.addInstance("alice", "app");
  const next = await startPod();
  // The pod goes between the connection and the answer to whose it is.
  const name = status.instanceId ?? "";
  door.cluster.onNext("get", () => {
    const object = door.cluster.cache.pods.store.get(`tenancy/${name}`);
    door.cluster.removePod(name);
    if (object !== undefined) door.proxy.onPod({ type: "deleted", object });
  });
  const wire = door.wire(upload);
  await eventually(() => pod.connections.length > 0);
  door.cluster.setStatus(NAME, { phase: "Pending" });
  const endpoint = { host: "127.0.0.1", port: next.target.port };
  door.cluster.setStatus(NAME, { ...status, instanceId: `${name}-next`, endpoint });
  await wire.seen("200 OK");
  assert.is(pod.received(), "");
  assert.match(next.received(), "hello");
});

test("a workload that is closed while a request waits for its pod stays closed", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const pod = await startPod();
  const asked = door.ask(get(HOST, "/", key));
  await eventually(() => door.cluster.verbs().includes("create"));
  door.addWorkload("app", "none");
  const endpoint = { host: "127.0.0.1", port: pod.target.port };
  door.cluster.setStatus(NAME, { phase: "Active", source: "pool", instanceId: "inst-alice-app-1", endpoint });
  assert.match(await asked, /^HTTP\/1.1 404 /);
  assert.is(pod.connections.length, 0);
});

test.run();
