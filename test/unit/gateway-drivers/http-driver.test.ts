// @runtimes bun node deno
import { Webhook } from "standardwebhooks";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PodGoneError } from "../../../edge/gateway/drivers/driver.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { callTo, failureOf, payload } from "./driver-call.ts";
import { httpAnswer, startWireServer, type WireRequest, type WireServer } from "./wire-server.ts";

const test = suite("driver none");

async function withServer(
  answer: (request: WireRequest) => void,
  use: (server: WireServer) => Promise<void>,
  listen: { host?: string; port?: number } = {},
): Promise<void> {
  const server = await startWireServer(answer, listen);
  try {
    await use(server);
  } finally {
    await server.close();
  }
}

test("posts the payload as JSON and passes status, content type and body on", async () => {
  const answer = ({ socket }: WireRequest) =>
    socket.end(httpAnswer(201, "grüß 🙂", { "content-type": "text/plain; charset=utf-8" }));
  await withServer(answer, async ({ port, requests }) => {
    const reply = await driverFor({})(callTo(port));
    assert.is(reply.status, 201);
    assert.is(reply.contentType, "text/plain; charset=utf-8");
    assert.is(reply.text, "grüß 🙂");
    assert.equal(Buffer.from(reply.body).toString(), "grüß 🙂");
    const [{ head, body } = { head: "", body: "" }] = requests;
    assert.match(head, /^POST \/ HTTP\/1\.1\r\n/);
    assert.match(head, new RegExp(`^host: 127\\.0\\.0\\.1:${port}\\r?$`, "im"));
    assert.match(head, /^content-type: application\/json\r?$/im);
    assert.equal(JSON.parse(Buffer.from(body, "latin1").toString("utf8")), payload);
  });
});

test("signs what is sent, as a Standard Webhook, with the secret that is replaced too", async () => {
  const secrets = [Buffer.alloc(32, 1), Buffer.alloc(24, 2)];
  await withServer(
    ({ socket }) => socket.end(httpAnswer(200)),
    async ({ port, requests }) => {
      await driverFor({})(callTo(port, { signedWith: secrets }));
      const [{ head, body: sent } = { head: "", body: "" }] = requests;
      const headers = Object.fromEntries(
        [...head.matchAll(/^(webhook-[a-z]+): (.*?)\r?$/gim)].map((line) => line.slice(1)),
      );
      assert.is(headers["webhook-id"], payload.id);
      const body = Buffer.from(sent, "latin1").toString("utf8");
      for (const secret of secrets) assert.equal(new Webhook(secret.toString("base64")).verify(body, headers), payload);
      assert.throws(() => new Webhook(secrets[0]?.toString("base64") ?? "").verify(`${body} `, headers), /signature/);
      await driverFor({})(callTo(port));
      assert.not.match(requests.at(-1)?.head ?? "", /^webhook-/im);
    },
  );
});

test("takes driverOptions.path, however it is written, and never another host", async () => {
  const paths: Record<string, RegExp> = {
    "/hooks/a?b=c": /^POST \/hooks\/a\?b=c HTTP/,
    hooks: /^POST \/hooks HTTP/,
    "//evil.example/x": /^POST \/\/evil\.example\/x HTTP/,
    "@evil.example": /^POST \/@evil\.example HTTP/,
    "http://evil.example/": /^POST \/http:\/\/evil\.example\/ HTTP/,
    "/ü": /^POST \/%C3%BC HTTP/,
  };
  await withServer(
    ({ socket }) => socket.end(httpAnswer(200)),
    async ({ port, requests }) => {
      for (const [path, line] of Object.entries(paths)) {
        await driverFor({})(callTo(port, { options: { path } }));
        assert.match(requests.at(-1)?.head ?? "", line);
      }
    },
  );
});

test("reaches a pod by its IPv6 address", async () => {
  await withServer(
    ({ socket }) => socket.end(httpAnswer(200, "six")),
    async ({ port, requests }) => {
      assert.is((await driverFor({})(callTo(port, { host: "::1" }))).text, "six");
      assert.match(requests[0]?.head ?? "", new RegExp(`^host: \\[::1\\]:${port}\\r?$`, "im"));
    },
    { host: "::1" },
  );
});

for (const status of [200, 204, 299, 400, 404, 409, 429, 500, 503]) {
  test(`status ${status} is the container's reply`, async () => {
    const head = status === 204 ? "HTTP/1.1 204 No Content\r\n\r\n" : httpAnswer(status, "text");
    await withServer(
      ({ socket }) => socket.end(head),
      async ({ port }) => {
        const reply = await driverFor({})(callTo(port));
        assert.is(reply.status, status);
        assert.is(reply.text, status === 204 ? "" : "text");
        assert.is(reply.contentType, "application/octet-stream");
      },
    );
  });
}

const failures: Record<string, (request: WireRequest) => void> = {
  "a redirect": ({ socket }) => socket.end(httpAnswer(302, "", { location: "http://127.0.0.1:1/" })),
  "a redirect that keeps the method": ({ socket }) => socket.end(httpAnswer(308, "", { location: "/other" })),
  "304": ({ socket }) => socket.end("HTTP/1.1 304 Not Modified\r\n\r\n"),
  "101": ({ socket }) => socket.end("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
  "a close without an answer": ({ socket }) => socket.end(),
  "a reset": ({ socket }) => socket.destroy(),
  "no HTTP": ({ socket }) => socket.end("hello\r\n\r\n"),
  "half a body": ({ socket }) => socket.end(httpAnswer(200, "half", { "content-length": "8" })),
  "a body over 1 MiB": ({ socket }) => socket.end(httpAnswer(200, "x".repeat(1024 * 1024 + 1))),
  "an encoded body": ({ socket }) => socket.end(httpAnswer(200, "x", { "content-encoding": "gzip" })),
};
for (const [name, answer] of Object.entries(failures)) {
  test(`fails, having sent the payload once, on: ${name}`, async () => {
    await withServer(answer, async (server) => {
      const { nothingSent } = await failureOf(driverFor({})(callTo(server.port)));
      assert.is(nothingSent, false);
      assert.is(server.requests.length, 1);
      assert.is(server.connections(), 1);
      await server.drained();
    });
  });
}

test("takes a body of 1 MiB", async () => {
  await withServer(
    ({ socket }) => socket.end(httpAnswer(200, "x".repeat(1024 * 1024))),
    async ({ port }) => {
      assert.is((await driverFor({})(callTo(port))).body.length, 1024 * 1024);
    },
  );
});

test("an address that the pod has lost meanwhile is not sent to again, and nothing was sent", async () => {
  const server = await startWireServer(() => undefined);
  await server.close();
  const clock = manualClock();
  const confirm = () => Promise.reject(new PodGoneError("moved"));
  const failure = failureOf(driverFor({}, { clock })(callTo(server.port, { confirm })));
  await eventually(() => clock.nextIn() === 1000);
  const other = await startWireServer(({ socket }) => socket.end(httpAnswer(200, "another tenant's")), server);
  await clock.runWhenNextIs(1000);
  const { nothingSent, message } = await failure;
  assert.equal([nothingSent, message], [true, "moved"]);
  assert.is(other.requests.length, 0);
  await other.close();
});

test("a pod that goes while it works ends the request, which it may have got", async () => {
  const gone = new AbortController();
  await withServer(
    () => gone.abort(new PodGoneError("the pod is gone")),
    async ({ port }) => {
      const { nothingSent, message } = await failureOf(driverFor({})(callTo(port, { signal: gone.signal })));
      assert.equal([nothingSent, message], [false, "the pod is gone"]);
    },
  );
});

test("a port that refuses is tried once more after a moment, and then nothing was sent", async () => {
  const server = await startWireServer(() => undefined);
  await server.close();
  const clock = manualClock();
  const failure = failureOf(driverFor({}, { clock })(callTo(server.port)));
  await clock.runWhenNextIs(1000);
  const { nothingSent, message } = await failure;
  assert.is(nothingSent, true);
  assert.match(message, new RegExp(`POST http://127\\.0\\.0\\.1:${server.port}/`));
  assert.is(clock.pending(), 0);
});

test("a port that opens during the pause gets the payload", async () => {
  const { port, close } = await startWireServer(() => undefined);
  await close();
  const clock = manualClock();
  const reply = driverFor({}, { clock })(callTo(port));
  await eventually(() => clock.nextIn() === 1000);
  await withServer(
    ({ socket }) => socket.end(httpAnswer(200, "late")),
    async () => {
      await clock.runWhenNextIs(1000);
      assert.is((await reply).text, "late");
    },
    { port },
  );
});

for (const [seconds, expected] of [
  [undefined, 300_000],
  [7, 7000],
] as const) {
  test(`ends after driverOptions.timeoutSeconds: ${seconds ?? "300 when absent"}`, async () => {
    const clock = manualClock();
    await withServer(
      () => undefined,
      async (server) => {
        const options = seconds === undefined ? undefined : { timeoutSeconds: seconds };
        const failure = failureOf(driverFor({}, { clock })(callTo(server.port, { options })));
        await eventually(() => server.requests.length > 0);
        await clock.runWhenNextIs(expected);
        const { nothingSent, cause } = await failure;
        assert.is(nothingSent, false);
        assert.is((cause as Error).name, "TimeoutError");
        await server.drained();
        assert.is(clock.pending(), 0);
      },
    );
  });
}

const moments: Record<string, string> = {
  "before the head": "",
  "in the body": "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",
};
for (const [name, start] of Object.entries(moments)) {
  test(`an abort ends it with the signal's reason and leaves no connection or timer: ${name}`, async () => {
    const clock = manualClock();
    const controller = new AbortController();
    const reason = new Error("stop");
    const answer = ({ socket }: WireRequest) => {
      if (start !== "") socket.write(start);
      setImmediate(() => controller.abort(reason));
    };
    await withServer(answer, async (server) => {
      const call = driverFor({}, { clock })(callTo(server.port, controller));
      assert.is(await call.catch((error: unknown) => error), reason);
      await server.drained();
      assert.is(clock.pending(), 0);
    });
  });
}

test("an abort during the pause ends it, and before the call sends nothing", async () => {
  const { port, close } = await startWireServer(() => undefined);
  await close();
  const clock = manualClock();
  const controller = new AbortController();
  const reason = new Error("stop");
  const call = driverFor({}, { clock })(callTo(port, controller));
  await eventually(() => clock.nextIn() === 1000);
  controller.abort(reason);
  assert.is(await call.catch((error: unknown) => error), reason);
  assert.is(clock.pending(), 0);
  await withServer(
    () => undefined,
    async (server) => {
      assert.is(
        await driverFor({}, { clock })(callTo(server.port, controller)).catch((error: unknown) => error),
        reason,
      );
      assert.is(server.connections(), 0);
    },
  );
});

test("events that follow each other closely share a connection", async () => {
  const answer = ({ socket }: WireRequest) => void socket.write(httpAnswer(200, "ok", { connection: "keep-alive" }));
  await withServer(answer, async (server) => {
    const drive = driverFor({});
    for (let count = 0; count < 20; count += 1) assert.is((await drive(callTo(server.port))).text, "ok");
    assert.is(server.requests.length, 20);
    assert.is(server.connections(), 1);
    await server.drained();
  });
});

test.run();
