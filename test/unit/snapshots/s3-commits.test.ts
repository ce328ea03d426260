import { test } from "uvu";
import * as assert from "uvu/assert";
import type { S3Bucket } from "../../../crds/snapshots/s3/s3-bucket.ts";
import type { S3Answer, S3Request } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Commits } from "../../../crds/snapshots/s3/s3-commits.ts";
import { createS3Heads, type S3Version } from "../../../crds/snapshots/s3/s3-heads.ts";
import { s3Layout } from "../../../crds/snapshots/s3/s3-layout.ts";
import { StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { hurriedClock } from "../manual-clock.ts";
import { call, key, MOST } from "./store-contract.ts";

test("createS3Commits: an archive stays while a write of the head that names it may still be made", async () => {
  const layout = s3Layout("");
  const [at, blob] = [layout.head(key), "20261122T000000Z-0123456789abcdef.tar.gz"];
  const archive = layout.archive(key, blob);
  const objects = new Map<string, { body: Buffer; commit: string }>([
    [archive, { body: Buffer.from("x"), commit: "" }],
  ]);
  const answer = (status: number, given: Partial<S3Answer> = {}): S3Answer => ({
    ...{ status, etag: "", headers: {}, body: Buffer.alloc(0), code: "", isRepeated: true },
    ...given,
  });
  let late = (): void => undefined;
  async function send({ method, key: name = "", body = Buffer.alloc(0), headers = {} }: S3Request): Promise<S3Answer> {
    if (method === "PUT") {
      late = () => void objects.set(name, { body, commit: headers["x-amz-meta-commit"] ?? "" });
      // A server says so of a try while an earlier one of the same write is under way.
      return answer(409, { code: "ConditionalRequestConflict" });
    }
    const found = objects.get(name);
    if (found === undefined) return answer(404, { code: "NoSuchKey" });
    return answer(200, { body: found.body, etag: `"${found.commit}"`, headers: { "x-amz-meta-commit": found.commit } });
  }
  const bucket = {
    ...{ name: "b", encryption: {}, send },
    expect: (given: S3Answer) => given,
    erase: async (name: string) => void objects.delete(name),
  } as unknown as S3Bucket;
  const heads = createS3Heads({ bucket, layout, clock: hurriedClock });
  const usage = {
    all: async () => ({ archives: 0, bytes: 0, workloads: {} }),
    others: async () => ({ ofTenant: 0, ofWorkload: 0 }),
    note: () => undefined,
  };
  const { commit } = createS3Commits({ bucket, layout, heads, usage });
  const described = {
    uid: 1,
    gid: 1,
    entries: 1,
    contentBytes: 1,
    overlayDirs: ["/data"],
    createdAt: "2026-11-22T00:00:00.000Z",
  };
  const describe = (): S3Version => ({ ...key, ...described, sha256: "0".repeat(64), sizeBytes: 1, blob });
  const { revision: replaces } = await heads.read(key, call.signal);
  const failed = await commit(key, { blob, describe }, { ...call, replaces, most: MOST }).catch((error) => error);
  assert.instance(failed, StoreConflict);
  late();
  const { head } = await heads.read(key, call.signal);
  assert.equal([head?.versions[0]?.blob, objects.has(archive), objects.has(at)], [blob, true, true]);
});

test.run();
