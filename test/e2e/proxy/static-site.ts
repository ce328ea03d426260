import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import * as assert from "uvu/assert";
import type { Case } from "../../at-once.ts";
import type { FrontDoor } from "./front-door.ts";
import { PAGE } from "./image.ts";

/** What curl has got, and what it says of it. */
interface Fetched {
  readonly heads: string;
  readonly body: string;
  readonly status: number;
  readonly uploaded: number;
  /** Of the last request: connections that it had to open. */
  readonly connects: number;
}

async function curl(door: FrontDoor, url: string, ...options: string[]): Promise<Fetched> {
  const key = ["-H", `X-Tenancy-Key: ${door.apiKey}`];
  const written = "\n%{http_code} %{size_upload} %{num_connects}";
  const heads = join(door.folder, randomUUID());
  const all = ["-sS", "-m", "60", "-D", heads, "-w", written, ...key, ...options, url];
  const { stdout } = await promisify(execFile)("curl", all, { encoding: "latin1", maxBuffer: 16 * 1024 * 1024 });
  const at = stdout.lastIndexOf("\n");
  const [status, uploaded, connects] = stdout
    .slice(at + 1)
    .split(" ")
    .map(Number);
  assert.ok(status !== undefined && uploaded !== undefined && connects !== undefined);
  return { heads: readFileSync(heads, "latin1"), body: stdout.slice(0, at), status, uploaded, connects };
}

export const staticSite: Case<FrontDoor> = [
  "nginx: files, ranges, conditional requests, compression, uploads with Expect, HTTP/1.0, keep-alive and redirects",
  async (door) => {
    const site = `http://${door.host("site", "ann")}`;
    const page = `${site}/page.txt`;
    const got = await curl(door, page);
    assert.equal([got.status, got.body], [200, PAGE], got.heads);
    const head = await curl(door, page, "-I");
    assert.match(head.heads, new RegExp(`^Content-Length: ${PAGE.length}\\r$`, "im"));
    assert.is((await curl(door, page, "--request", "OPTIONS")).status, 405);

    const part = await curl(door, page, "-r", "10-19");
    assert.equal([part.status, part.body], [206, PAGE.slice(10, 20)]);
    assert.match(part.heads, new RegExp(`^Content-Range: bytes 10-19/${PAGE.length}\\r$`, "im"));
    const parts = await curl(door, page, "-r", "0-1,10-11");
    assert.is(parts.status, 206);
    assert.match(parts.heads, /^Content-Type: multipart\/byteranges; boundary=/im);
    assert.match(parts.body, /Content-Range: bytes 10-11\//);
    assert.is((await curl(door, page, "-r", "999999-")).status, 416);

    const tag = /^ETag: (.*)\r$/im.exec(got.heads)?.[1] ?? "";
    const since = /^Last-Modified: (.*)\r$/im.exec(got.heads)?.[1] ?? "";
    const known = await curl(door, page, "-H", `If-None-Match: ${tag}`);
    assert.equal([known.status, known.body], [304, ""], known.heads);
    assert.is((await curl(door, page, "-H", `If-Modified-Since: ${since}`)).status, 304);
    assert.is((await curl(door, page, "-H", 'If-Match: "another"')).status, 412);
    assert.is((await curl(door, page, "-r", "0-3", "-H", 'If-Range: "another"')).status, 200);

    // Compressed as it is sent, so in chunks.
    const small = await curl(door, page, "--compressed");
    assert.is(small.body, PAGE);
    assert.match(small.heads, /^Content-Encoding: gzip\r$/im);
    assert.match(small.heads, /^Transfer-Encoding: chunked\r$/im);
    const old = await curl(door, page, "-0");
    assert.equal([old.status, old.body], [200, PAGE]);
    const oldSmall = await curl(door, page, "-0", "--compressed");
    assert.is(oldSmall.body, PAGE);
    assert.not.match(oldSmall.heads, /^Transfer-Encoding/im);

    // A second request on the connection of the first.
    assert.is((await curl(door, page, page)).connects, 0);
  },
];

export const staticUploads: Case<FrontDoor> = [
  "nginx: an upload is let in or refused by the program before it is sent",
  async (door) => {
    const site = `http://${door.host("site", "ann")}`;
    const file = join(door.folder, "upload");
    writeFileSync(file, "x".repeat(1_500_000));
    const expect = ["-H", "Expect: 100-continue", "-T", file];
    const made = await curl(door, `${site}/up/one`, ...expect);
    assert.equal([made.status, made.uploaded], [201, 1_500_000], made.heads);
    assert.match(made.heads, /^HTTP\/1\.1 100 /);
    assert.is((await curl(door, `${site}/up/one`)).body.length, 1_500_000);
    const inChunks = await curl(door, `${site}/up/two`, ...expect, "-H", "Transfer-Encoding: chunked");
    assert.is(inChunks.status, 201, inChunks.heads);

    writeFileSync(file, "x".repeat(3_000_000));
    const refused = await curl(door, `${site}/up/three`, ...expect, "--expect100-timeout", "60");
    assert.equal([refused.status, refused.uploaded], [413, 0], refused.heads);
    assert.not.match(refused.heads, / 100 /);
    // Who sends at once is told too, though the program does not read on.
    assert.is((await curl(door, `${site}/up/three`, "-H", "Expect:", "-T", file)).status, 413);
  },
];

export const redirects: Case<FrontDoor> = [
  "nginx: a redirect leads to where its visitor can go, be it absolute or relative",
  async (door) => {
    const site = `http://${door.host("site", "ann")}`;
    for (const [from, to] of [
      ["/moved", `${site}/page.txt`],
      ["/moved-relative", "/page.txt"],
      ["/folder?a=b", `${site}/folder/?a=b`],
      ["/moved-away", "http://elsewhere.example:8080/page.txt"],
    ]) {
      const { heads } = await curl(door, `${site}${from}`);
      assert.is(/^Location: (.*)\r$/im.exec(heads)?.[1], to, from);
    }
    assert.is((await curl(door, `${site}/moved`, "-L")).body, PAGE);
    assert.match((await curl(door, `${site}/folder`, "-L")).body, /<title>folder/);
  },
];

export const oldClientWithoutHost: Case<FrontDoor> = [
  "nginx: an HTTP/1.0 client that names no host is served by the path",
  async (door) => {
    const head = `GET /t/ann/site/page.txt HTTP/1.0\r\nX-Tenancy-Key: ${door.apiKey}\r\n\r\n`;
    const answer = await door.raw(head, () => false);
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.ok(answer.endsWith(PAGE));
    assert.match(answer, /^Content-Security-Policy: sandbox\r$/im);
  },
];
