import { createHash } from "node:crypto";
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { S3Answer, S3Request } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Heads } from "../../../crds/snapshots/s3/s3-heads.ts";
import { s3Layout } from "../../../crds/snapshots/s3/s3-layout.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { hurriedClock } from "../manual-clock.ts";
import { bucketOf } from "./simulated-s3.ts";
import { call, key } from "./store-contract.ts";

function bodyOf(commit: string): Buffer {
  return Buffer.from(JSON.stringify({ commit, versions: [] }));
}

function md5Of(body: Buffer): string {
  return `"${createHash("md5").update(body).digest("hex")}"`;
}

/** Heads on a server that answers each look with the content of one write and the headers of another. */
function headsOf(look: (looks: number) => { content: string; header: string | undefined; etag?: string }) {
  let looks = 0;
  async function send(): Promise<S3Answer> {
    looks += 1;
    const { content, header, etag = `"${content}"` } = look(looks);
    const body = bodyOf(content);
    const headers = header === undefined ? {} : { "x-amz-meta-commit": header };
    return { status: 200, etag, headers, body, code: "", isRepeated: false };
  }
  return {
    ...createS3Heads({ bucket: bucketOf(send), layout: s3Layout(""), clock: hurriedClock }),
    looks: () => looks,
  };
}

test("createS3Heads: a head that is written again under each of many looks is looked at until they belong together", async () => {
  const heads = headsOf((looks) => ({ content: `${looks}`, header: looks < 40 ? `${looks + 1}` : `${looks}` }));
  assert.is((await heads.read(key, call.signal)).head?.commit, "40");
});

test("createS3Heads: an ETag of another write than the content is never the condition of the next write", async () => {
  const heads = headsOf((looks) => {
    const content = `${Math.min(looks, 40)}`;
    return { content, header: content, etag: md5Of(bodyOf(`${Math.min(looks + 1, 40)}`)) };
  });
  assert.is((await heads.read(key, call.signal)).revision, `40 ${md5Of(bodyOf("40"))}`);
});

test("createS3Heads: ETags that are no digests of the content count, and are looked at again only once", async () => {
  const random = '"0123456789abcdef0123456789abcdef"';
  const heads = headsOf(() => ({ content: "one", header: "one", etag: random }));
  assert.is((await heads.read(key, call.signal)).revision, `one ${random}`);
  const before = heads.looks();
  await heads.read(key, call.signal);
  assert.equal([before, heads.looks()], [8, 9]);
});

test("createS3Heads: one whose content and headers never belong together is a failure", async () => {
  const heads = headsOf(() => ({ content: "one", header: "another" }));
  const error = await heads.read(key, call.signal).catch((cause: unknown) => cause);
  assert.instance(error, StoreError);
  assert.match(String(error), "is not as it was written");
  assert.ok(heads.looks() < 10);
});

test("createS3Heads: one that another program has copied without its headers counts once it stands still", async () => {
  const still = headsOf(() => ({ content: "copied", header: undefined }));
  assert.is((await still.read(key, call.signal)).head?.commit, "copied");
  assert.ok(still.looks() >= 8);
  const replaced = headsOf((looks) => ({
    content: looks < 5 ? "copied" : "ours",
    header: looks < 4 ? undefined : "ours",
  }));
  assert.is((await replaced.read(key, call.signal)).head?.commit, "ours");
});

test("createS3Heads: a write that is answered without an ETag is looked up, so that the next has its condition", async () => {
  const conditions: (string | undefined)[] = [];
  let present: { body: Buffer; commit: string } = { body: Buffer.alloc(0), commit: "" };
  async function send({ method, headers = {}, body = Buffer.alloc(0) }: S3Request): Promise<S3Answer> {
    const none = { status: 200, etag: "", headers: {}, body: Buffer.alloc(0), code: "", isRepeated: false };
    const { commit } = present;
    if (method === "GET") {
      return { ...none, etag: `"${commit}"`, headers: { "x-amz-meta-commit": commit }, body: present.body };
    }
    conditions.push(headers["if-match"]);
    present = { body, commit: headers["x-amz-meta-commit"] ?? "" };
    return none;
  }
  const heads = createS3Heads({ bucket: bucketOf(send), layout: s3Layout(""), clock: hurriedClock });
  const { signal } = call;
  const first = await heads.swap(key, { next: { commit: "1", versions: [] }, replaces: '0 "0"', signal });
  await heads.swap(key, { next: { commit: "2", versions: [] }, replaces: first, signal });
  assert.equal(conditions, ['"0"', '"1"']);
});

test.run();
