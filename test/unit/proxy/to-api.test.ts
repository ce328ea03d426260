// @runtimes bun node deno
// Requests to the daemon of a sandbox, which the front door passes on to the API.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findFrontDoor, sandboxDomain } from "../../../edge/proxy/entry/front-door.ts";
import { apiAddress } from "../../../edge/proxy/to-api.ts";
import { answerWith, startPod } from "./fake-pod.ts";
import { get, KEY, startDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("the front door before the API");
test.after.each(closeAll);

const daemon = (id: string): string[] => [`E2b-Sandbox-Id: ${id}`, "E2b-Sandbox-Port: 49983"];
const statusOf = (answer: string): string => answer.slice(9, 12);

async function doorToApi(answer?: Parameters<typeof startPod>[0], more: Parameters<typeof startDoor>[0] = {}) {
  const api = await startPod(answer);
  const { host: hostname, port } = api.target;
  const door = await startDoor({ api: { hostname, port }, ...more });
  return { api, door, at: `${hostname}:${port}` };
}

test("the API gets the sandbox in headers of the front door, the credentials as they came, and no cookie", async () => {
  const { door, api, at } = await doorToApi(
    answerWith("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 2\r\n\r\nok"),
  );
  const lines = [
    ...["X-Access-Token: some", "Authorization: Basic dXNlcjo=", `X-API-Key: ${KEY}`, "Cookie: tenancy-session=1"],
    ...["Sec-Fetch-Mode: cors", "X-Forwarded-For: 192.0.2.1", "Connect-Protocol-Version: 1"],
  ];
  const target = "/files?path=%2Fa&signature=v1_a&tenancy-token=x";
  for (const request of [
    get("127.0.0.1", target, ...daemon("web--A.b"), ...lines),
    // E2B's SDKs mean the daemon where they name no port.
    get("apps.test", target, "e2b-sandbox-id: web--A.b", ...lines),
    get("49983-web--alice.apps.test", target, ...lines),
    get("49983-web--alice.apps.test", target, ...daemon("web--alice"), ...lines),
  ]) {
    const isHost = request.includes("alice");
    const before = api.received().length;
    const answer = await door.ask(request);
    assert.is(statusOf(answer), "200", answer);
    assert.not.match(answer, "Set-Cookie");
    assert.is(answer.includes("\r\nContent-Security-Policy: sandbox\r\n"), !isHost);
    assert.match(answer, "Access-Control-Allow-Origin: *");
    const received = api.received().slice(before);
    assert.ok(received.startsWith(`GET ${target} HTTP/1.1\r\nHost: ${at}\r\n`), received);
    assert.equal(received.match(/^e2b-.*$/gim), [
      `E2b-Sandbox-Id: ${isHost ? "web--alice" : "web--A.b"}`,
      "E2b-Sandbox-Port: 49983",
    ]);
    for (const line of lines.slice(0, 3)) assert.match(received, `\r\n${line}\r\n`);
    assert.not.match(received, /cookie/i);
    assert.equal(received.match(/^x-forwarded-(for|host).*$/gim), [
      "X-Forwarded-For: 127.0.0.1",
      `X-Forwarded-Host: ${isHost ? "49983-web--alice.apps.test" : request.includes("127") ? "127.0.0.1" : "apps.test"}`,
    ]);
  }
  assert.equal(door.cluster.calls, []);
  assert.not.match(JSON.stringify(door.accessed), /signature|some/);
});

test("a visitor can neither add a second sandbox nor remove the front door's headers", async () => {
  const { door, api } = await doorToApi();
  const removed = "Connection: E2b-Sandbox-Id, E2b-Sandbox-Port, X-Access-Token";
  assert.is(statusOf(await door.ask(get("127.0.0.1", "/", ...daemon("web--a")))), "200");
  const wire = door.wire(get("127.0.0.1", "/", ...daemon("web--a"), removed));
  await wire.seen("200 OK");
  assert.is(api.received().match(/^E2b-Sandbox-Id: web--a\r$/gm)?.length, 2);
  const trailers = door.wire(
    `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n${daemon("web--a").join("\r\n")}\r\nTransfer-Encoding: chunked\r\n\r\n` +
      "0\r\nE2b-Sandbox-Id: web--b\r\nX-Access-Token: a\r\n\r\n",
  );
  await trailers.seen("200 OK");
  for (const lines of [
    [...daemon("web--a"), "E2b-Sandbox-Id: web--b"],
    [...daemon("web--a"), "E2b-Sandbox-Port: 49983"],
  ])
    assert.is(statusOf(await door.ask(get("127.0.0.1", "/", ...lines))), "400");
  for (const id of ["", "web", "web--", "--a", "web--a/b", "web--a,web--b", "../x--a"])
    assert.is(statusOf(await door.ask(get("127.0.0.1", "/", `E2b-Sandbox-Id: ${id}`))), "404", id);
  for (const host of ["web--a.apps.test", "8080-web--a.apps.test"])
    assert.is(statusOf(await door.ask(get(host, "/", ...daemon("web--a")))), "400");
  assert.not.match(api.received(), "web--b");
});

test("data streams in both directions, one piece before the next", async () => {
  const { door, api } = await doorToApi(({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    if (text.includes("two")) {
      socket.end("3\r\nend\r\n0\r\n\r\n");
      done();
    } else if (text.includes("one") && socket.bytesWritten === 0) {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n");
    }
  });
  const head = ["POST /process.Process/StreamInput HTTP/1.1", "Host: 127.0.0.1", ...daemon("web--alice")];
  const wire = door.wire([...head, "Transfer-Encoding: chunked", "", "3\r\none\r\n"].join("\r\n"));
  await wire.seen("begun");
  wire.socket.write("3\r\ntwo\r\n0\r\n\r\n");
  await wire.seen("end\r\n0\r\n\r\n");
  assert.match(api.received(), "/process.Process/StreamInput");
});

test("without a way to the API the answer says so, and while it cannot be reached too", async () => {
  const bodyOf = (answer: string) => JSON.parse(answer.slice(answer.indexOf("{"))) as Record<string, unknown>;
  const request = get("127.0.0.1", "/health", ...daemon("web--alice"));
  const without = await startDoor();
  const none = await without.ask(request);
  assert.is(statusOf(none), "502");
  assert.match(String(bodyOf(none).message), "TENANCY_PROXY_API");
  assert.equal([bodyOf(none).code, bodyOf(none).sandboxId], [502, "web--alice"]);
  const gone = await startDoor({ api: { hostname: "127.0.0.1", port: 1 } });
  const unreachable = await gone.ask(request);
  assert.is(statusOf(unreachable), "503");
  assert.match(unreachable, "Retry-After: 1");
  assert.equal([bodyOf(unreachable).code, bodyOf(unreachable).sandboxId], [503, "web--alice"]);
});

test("one tenant's requests are bounded, and a name that a stranger chose is no label", async () => {
  const config = { tenantConnections: 2 };
  const { door } = await doorToApi(
    ({ socket, text, done }) => {
      if (!text.includes("\r\n\r\n")) return;
      done();
      if (text.includes("GET /waits")) return;
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    },
    { config },
  );
  door.addWorkload("web", "none");
  const open = [1, 2].map(() => door.wire(get("127.0.0.1", "/waits", ...daemon("other--alice"))));
  const ask = async (id: string) => statusOf(await door.ask(get("127.0.0.1", "/", ...daemon(id))));
  while ((await ask("web--alice")) !== "503") await new Promise((resolve) => setImmediate(resolve));
  assert.is(await ask("web--bob"), "200");
  for (const { socket } of open) socket.destroy();
  while ((await ask("web--alice")) !== "200") await new Promise((resolve) => setImmediate(resolve));
  await ask("chosen--alice");
  const metrics = await door.registry.metrics();
  assert.match(metrics, 'tenancy_proxy_requests_total{workload="web",code="2xx"}');
  assert.not.match(metrics, /chosen|other/);
});

test("where only this machine's names are served, another host reaches no daemon", async () => {
  const { door, api } = await doorToApi(undefined, { key: null, localOnly: true });
  assert.is(statusOf(await door.ask(get("evil.test", "/", ...daemon("web--alice")))), "404");
  assert.is(api.received(), "");
  for (const host of ["localhost:8081", "127.0.0.1", "49983-web--alice.apps.test"])
    assert.is(statusOf(await door.ask(get(host, "/", ...daemon("web--alice")))), "200", host);
});

test("apiAddress: the setting, else the listener of this process, else none with a line in the log", () => {
  const lines: string[] = [];
  const log = { info: (_: object, message: string) => void lines.push(message) };
  const own = (url: string) => apiAddress(undefined, { own: url, log });
  const set = { hostname: "tenancy-edge", port: 8080 };
  assert.equal(apiAddress(set, { own: "http://127.0.0.1:1", log }), set);
  assert.equal(own("http://127.0.0.1:8080"), { hostname: "127.0.0.1", port: 8080 });
  assert.equal(own("http://0.0.0.0:8080"), { hostname: "127.0.0.1", port: 8080 });
  assert.equal(own("http://[::]:80"), { hostname: "::1", port: 80 });
  assert.equal(own("http://[fd00::1]:8080"), { hostname: "fd00::1", port: 8080 });
  assert.equal(lines, []);
  assert.is(apiAddress(undefined, { own: undefined, log }), undefined);
  assert.equal(lines.length, 1);
});

test("sandboxDomain: the domain of the front door, with its port where visitors name one", () => {
  const listen = { hostname: "127.0.0.1", port: 8081 };
  const at = (name: string, port: number | undefined, scheme: "http" | "https") =>
    sandboxDomain(findFrontDoor({ domain: { name, port }, scheme, listen }, () => 9));
  assert.is(at("apps.test", undefined, "https"), "apps.test");
  assert.is(at("apps.test", 8443, "https"), "apps.test:8443");
  assert.is(at("localhost", undefined, "http"), "localhost:9");
  assert.is(sandboxDomain(undefined), undefined);
});

test.run();
