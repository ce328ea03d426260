// @runtimes node
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { gzip } from "../../../operator/snapshots/streams/gzip.ts";

const test = suite("gzip");

async function compress(content: Buffer, pieceBytes = 65_536): Promise<Buffer> {
  function* pieces(): Generator<Buffer> {
    for (let from = 0; from < content.length; from += pieceBytes) yield content.subarray(from, from + pieceBytes);
  }
  const parts: Buffer[] = [];
  for await (const part of gzip(pieces())) parts.push(part);
  return Buffer.concat(parts);
}

const text = Buffer.from(Array.from({ length: 60_000 }, (_, index) => `line ${index} of ${index * 7919}\n`).join(""));

test("gives back what it was given, whatever that is, to zlib and to gzip", async () => {
  const sizes = [0, 1, 4095, 65_535, 65_536, 262_143, 262_144, 262_145, 1_000_000];
  const contents = [
    ...sizes.flatMap((size) => [randomBytes(size), Buffer.alloc(size), text.subarray(0, size)]),
    Buffer.concat([text, randomBytes(700_000), text, Buffer.alloc(300_000), randomBytes(5)]),
  ];
  for (const content of contents) {
    for (const pieceBytes of [65_536, 7919]) {
      const made = await compress(content, pieceBytes);
      assert.ok(gunzipSync(made).equals(content), `${content.length} bytes in pieces of ${pieceBytes}`);
    }
    const maxBuffer = 16 * 1024 * 1024;
    assert.ok(execFileSync("gzip", ["-dc"], { input: await compress(content), maxBuffer }).equals(content));
  }
});

test("compresses what can be, and makes what cannot hardly larger", async () => {
  assert.ok((await compress(text)).length < text.length / 3);
  assert.ok((await compress(Buffer.alloc(5_000_000))).length < 50_000);
  const dense = randomBytes(2_000_000);
  assert.ok((await compress(dense)).length < dense.length * 1.0005);
  const base64 = Buffer.from(randomBytes(1_500_000).toString("base64"));
  assert.ok((await compress(base64)).length < base64.length * 0.8);
});

test("stores dense files with what is between them", async () => {
  const header = Buffer.alloc(512);
  header.write("data/file");
  const files = Buffer.concat(Array.from({ length: 256 }, () => [header, randomBytes(65_536)]).flat());
  // Of each 256 KiB five blocks with a head of five bytes; header, end and trailer of gzip.
  const stored = files.length + Math.floor(files.length / 262_144) * 25 + 10 + 5 + 8;
  const left = files.length % 262_144;
  assert.is((await compress(files)).length, stored + Math.ceil(left / 65_535) * 5);
});

test("fails with what its source fails with", async () => {
  async function* broken(): AsyncGenerator<Buffer> {
    yield text;
    throw new Error("the pod is gone");
  }
  const made = gzip(broken());
  let error: unknown;
  try {
    for await (const part of made) assert.ok(part.length > 0);
  } catch (caught) {
    error = caught;
  }
  assert.match(String(error), /the pod is gone/);
});

test.run();
