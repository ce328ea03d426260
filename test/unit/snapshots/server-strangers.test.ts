// @runtimes node
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectSecurely } from "node:tls";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MARK, TOKEN as TOKEN_HEADER } from "../../../crds/snapshots/store-protocol.ts";
import { createSnapshotServer, type SnapshotServerOptions } from "../../../operator/snapshots/helper/server.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import { eventually } from "../../eventually.ts";
import { TOKEN } from "./store-server.ts";

interface Context {
  folder: string;
  root: string;
  serve(options?: Partial<SnapshotServerOptions>): Promise<number>;
  close: (() => Promise<void>)[];
}

const test = suite<Context>("strangers at the snapshots server");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-strangers-"));
  context.root = join(context.folder, "volume");
  mkdirSync(context.root);
  context.close = [];
  context.serve = async (options = {}) => {
    const server = createSnapshotServer({ root: context.root, tokens: () => [TOKEN], ...options });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    context.close.push(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return (server.address() as AddressInfo).port;
  };
});
test.after.each(async ({ close, folder }) => {
  for (const each of close) await each();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

interface Answer {
  readonly status: number | undefined;
  readonly body: string;
  readonly connection: string | undefined;
}

function ask(port: number, options: { method: string; path: string; token?: string | string[] }): Promise<Answer> {
  const { token, ...asked } = options;
  const headers = token === undefined ? {} : { [TOKEN_HEADER]: token };
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, headers, agent: false, ...asked }, (response) => {
      const { statusCode: status, headers: given } = response;
      let body = "";
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => resolve({ status, body, connection: given.connection }));
      assert.is(given[MARK], "1");
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("no call is answered without a token that counts, whatever its method, path and way to write it", async ({
  serve,
}) => {
  const port = await serve({ tokens: () => [TOKEN, "former"] });
  const paths = [
    ...["/v1/list", "/v1/keys/a/w", "/v1/usage", "/v1/space", "/v1/contexts/w", "/v1/touch", "/v1/tidy"],
    ...["//healthz/../v1/list", "/healthz/../v1/list", "/v1/uploads/a/w/x?from=b/w/y", "/", "*", "/%68ealthz"],
  ];
  for (const path of paths) {
    for (const method of ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"]) {
      assert.equal((await ask(port, { method, path })).status, 401, `${method} ${path}`);
    }
  }
  const wrong = [
    "",
    ",",
    " ",
    `${TOKEN} `.repeat(2),
    TOKEN.toUpperCase(),
    TOKEN.slice(0, -1),
    `${TOKEN}\t,x`.slice(0, 3),
  ];
  for (const token of [...wrong, `Bearer ${TOKEN}`, "undefined"]) {
    assert.is((await ask(port, { method: "GET", path: "/v1/list", token })).status, 401, token);
  }
  for (const token of [TOKEN, "former", `x,${TOKEN}`]) {
    assert.is((await ask(port, { method: "GET", path: "/v1/list", token })).status, 200, token);
  }
});

test("a list is of a tenant, and never of another folder", async ({ root, folder, serve }) => {
  mkdirSync(join(folder, "beside"));
  for (const path of [join(folder, "beside"), root]) writeFileSync(join(path, "w.tar.gz"), "x");
  const port = await serve();
  for (const tenant of ["../beside", "..%2Fbeside", "", ".", "..", ".contexts"]) {
    const path = `/v1/list?tenant=${tenant}`;
    assert.is((await ask(port, { method: "GET", path, token: TOKEN })).body, '{"end":0}\n', tenant);
  }
});

test("an upload that is given up is one of a tenant's, and never of another folder", async ({
  root,
  folder,
  serve,
}) => {
  const id = "a".repeat(32);
  const beside = join(folder, "w.tar.gz.aaaaaaaa.partial");
  writeFileSync(beside, "x");
  mkdirSync(join(root, ".contexts"));
  const port = await serve();
  for (const key of ["../w", "..//w", "x/../w", ".contexts/x", "/x", "a/../../w"]) {
    const { status } = await ask(port, { method: "DELETE", path: `/v1/uploads/${key}/${id}`, token: TOKEN });
    assert.is(status, 400, key);
  }
  assert.equal([existsSync(beside), readdirSync(root)], [true, [".contexts"]]);
});

test("a connection of somebody without a token is not kept", async ({ serve }) => {
  const port = await serve();
  assert.is((await ask(port, { method: "GET", path: "/v1/list" })).connection, "close");
  assert.is((await ask(port, { method: "GET", path: "/healthz" })).connection, "close");
});

test("who connects and asks for nothing is let go", async ({ serve }) => {
  const { certificate: cert, key } = makeSelfSigned({
    ...{ name: "tenancy-snapshots", from: new Date(Date.now() - 60_000), until: new Date(Date.now() + 3_600_000) },
  });
  const [plain, secure] = [await serve({ strangerMs: 100 }), await serve({ strangerMs: 100, tls: { key, cert } })];
  const sockets: Socket[] = [
    connect(plain, "127.0.0.1"),
    connect(secure, "127.0.0.1"),
    connectSecurely({ host: "127.0.0.1", port: secure, rejectUnauthorized: false }),
    connect(plain, "127.0.0.1", () => sockets[3]?.write("GET /v1/list HTTP/1.1\r\nhost: x\r\nx-slow: ")),
  ];
  let closed = 0;
  for (const socket of sockets) {
    socket.on("error", () => undefined);
    socket.on("close", () => (closed += 1));
    socket.resume();
  }
  await eventually(async () => closed === sockets.length);
});

test("many connections take no more than what the server can bear", async ({ serve }) => {
  const port = await serve({ strangerMs: 240_000 });
  const sockets: Socket[] = [];
  let closed = 0;
  try {
    // One after another, so that none waits for a place in the queue of the kernel.
    for (let count = 0; count < 1100; count += 1) {
      const socket = connect(port, "127.0.0.1");
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => (closed += 1));
      await once(socket, "connect");
    }
    await eventually(async () => closed === 1100 - 1024);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

test.run();
