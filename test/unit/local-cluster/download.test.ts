import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { download } from "../../../scripts/cluster/sources/download.ts";
import { officialReleaseSource } from "../../../scripts/cluster/sources/official-release.ts";

const CONTENT = Buffer.from("0123456789".repeat(10_000));
const SHA256 = createHash("sha256").update(CONTENT).digest("hex");

interface Context {
  folder: string;
  server: Server;
  url: string;
  requests: string[];
  answer: RequestListener;
}

const test = suite<Context>("download");

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "download-test-"));
  context.requests = [];
  context.answer = serve;
  context.server = createServer((request, response) => {
    context.requests.push(`${request.url} ${request.headers.range ?? ""}`.trim());
    context.answer(request, response);
  });
  await new Promise<void>((resolve) => context.server.listen(0, "127.0.0.1", resolve));
  context.url = `http://127.0.0.1:${(context.server.address() as AddressInfo).port}`;
});
test.after.each(async ({ folder, server }) => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});

const serve: RequestListener = (request, response) => {
  const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
  if (from >= CONTENT.length) response.writeHead(416).end();
  else response.writeHead(from > 0 ? 206 : 200).end(CONTENT.subarray(from));
};

/** A server that always sends the whole file. */
const serveWhole: RequestListener = (_request, response) => response.writeHead(200).end(CONTENT);

for (const [what, partial, answer, requests] of [
  ["fetches a file", undefined, serve, ["/"]],
  ["goes on where an interrupted run stopped", CONTENT.subarray(0, 40_000), serve, ["/ bytes=40000-"]],
  ["accepts a file that was whole but not yet in place", CONTENT, serve, undefined],
  ["begins again with a server that cannot go on", "something else", serveWhole, undefined],
] as const) {
  test(what, async (context) => {
    const path = join(context.folder, "file");
    if (partial !== undefined) writeFileSync(`${path}.partial`, partial);
    context.answer = answer;
    await download({ url: context.url, path, sha256: SHA256 });
    assert.ok(readFileSync(path).equals(CONTENT));
    assert.not.ok(existsSync(`${path}.partial`));
    if (requests !== undefined) assert.equal(context.requests, requests);
  });
}

test("goes on after a connection that breaks", async (context) => {
  context.answer = (request, response) => {
    if (context.requests.length > 1) return serve(request, response);
    response.writeHead(200, { "content-length": CONTENT.length });
    response.write(CONTENT.subarray(0, 50_000), () => setTimeout(() => response.destroy(), 50));
  };
  const path = join(context.folder, "file");
  await download({ url: context.url, path, sha256: SHA256 });
  assert.match(context.requests[1] ?? "", /bytes=\d+-/);
  assert.ok(readFileSync(path).equals(CONTENT));
});

test("refuses a wrong checksum and keeps nothing of the file", async ({ folder, url }) => {
  const path = join(folder, "file");
  await download({ url, path, sha256: "0".repeat(64) }).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /its SHA-256 is/),
  );
  assert.not.ok(existsSync(path));
  assert.not.ok(existsSync(`${path}.partial`));
});

test("gives up on a server that stops sending", async (context) => {
  context.answer = (_request, response) => void response.writeHead(200).write("beginning");
  const path = join(context.folder, "file");
  await download({ url: context.url, path, sha256: SHA256, stallMs: 50 }).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /Cannot fetch/),
  );
});

test("officialReleaseSource fetches every program but etcd and checks it", async (context) => {
  context.answer = (request, response) => {
    if (request.url?.endsWith(".sha256")) response.end(`${SHA256}\n`);
    else serve(request, response);
  };
  const source = officialReleaseSource({ baseUrl: `${context.url}/release`, version: "v1.2.3" });
  const found = await source.find({
    need: PROGRAMS,
    environment: {},
    binariesFolder: context.folder,
    log: () => undefined,
  });
  assert.ok("folder" in found);
  assert.is(found.version, "v1.2.3");
  for (const name of PROGRAMS) assert.is(existsSync(join(found.folder, name)), name !== "etcd");
});

test("officialReleaseSource says within its limit that a host does not answer", async (context) => {
  context.answer = () => undefined;
  const find = (baseUrl: string) =>
    officialReleaseSource({ baseUrl, reachMs: 100 }).find({
      need: PROGRAMS,
      environment: {},
      binariesFolder: context.folder,
      log: () => undefined,
    });
  const silent = await find(context.url);
  assert.match("because" in silent ? silent.because : "", /127\.0\.0\.1:\d+ cannot be reached/);
  const refused = await find("http://127.0.0.1:1");
  assert.match("because" in refused ? refused.because : "", /127\.0\.0\.1:1 cannot be reached/);
});

test.run();
