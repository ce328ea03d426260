// @runtimes node bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import * as v from "valibot";
import { objectUrl } from "../../../crds/snapshots/s3/s3-client.ts";
import { describeS3Place, s3Environment, s3Place } from "../../../crds/snapshots/s3/s3-config.ts";

const test = suite("s3Place");

function parse(env: Record<string, string>) {
  return s3Place(v.parse(v.object(s3Environment), env));
}

const store = { TENANCY_SNAPSHOT_STORE: "s3://some-bucket/some/prefix" };

test("is undefined for the volume, which is the default", () => {
  assert.is(parse({}), undefined);
  assert.is(parse({ TENANCY_SNAPSHOT_STORE: "volume" }), undefined);
});

test("takes Amazon's own server of the region, or another with the bucket in the path", () => {
  const amazon = parse({ ...store, TENANCY_SNAPSHOT_REGION: "eu-central-1" });
  assert.equal(amazon, {
    ...{ kind: "s3", bucket: "some-bucket", prefix: "some/prefix", region: "eu-central-1" },
    ...{ endpoint: "https://s3.eu-central-1.amazonaws.com", isPathStyle: false, encryption: {} },
  });
  assert.is(amazon && describeS3Place(amazon), "s3://some-bucket/some/prefix");
  const china = parse({ ...store, TENANCY_SNAPSHOT_REGION: "cn-north-1" });
  assert.is(china?.endpoint, "https://s3.cn-north-1.amazonaws.com.cn");
  const other = parse({ ...store, TENANCY_SNAPSHOT_ENDPOINT: "http://objects.example:9000/" });
  assert.equal([other?.endpoint, other?.isPathStyle], ["http://objects.example:9000", true]);
  assert.is(other && describeS3Place(other), "s3://some-bucket/some/prefix at http://objects.example:9000");
  const named = {
    ...store,
    TENANCY_SNAPSHOT_ENDPOINT: "https://objects.example",
    TENANCY_SNAPSHOT_PATH_STYLE: "false",
  };
  assert.is(parse(named)?.isPathStyle, false);
});

test("an object is below the bucket's own host, or below the bucket in the path", () => {
  const at = (isPathStyle: boolean, endpoint: string, key?: string, query?: Record<string, string>) =>
    objectUrl({ endpoint, bucket: "b", isPathStyle }, { key, query });
  const amazon = "https://s3.eu-central-1.amazonaws.com";
  assert.is(at(false, amazon, "a/b.json"), "https://b.s3.eu-central-1.amazonaws.com/a/b.json");
  assert.is(at(false, amazon, undefined, { "list-type": "2" }), "https://b.s3.eu-central-1.amazonaws.com/?list-type=2");
  assert.is(at(true, "http://objects.example:9000", "a"), "http://objects.example:9000/b/a");
  assert.is(
    at(true, "https://objects.example/s3/", undefined, { uploads: "" }),
    "https://objects.example/s3/b/?uploads=",
  );
});

test("keeps a bucket with a dot in its name in the path, where certificates do not reach it", () => {
  const env = { TENANCY_SNAPSHOT_STORE: "s3://a.b", TENANCY_SNAPSHOT_REGION: "eu-central-1" };
  assert.equal([parse(env)?.isPathStyle, parse(env)?.prefix], [true, ""]);
});

test("asks for encryption where it is told to", () => {
  const env = { ...store, TENANCY_SNAPSHOT_REGION: "eu-central-1" };
  assert.equal(parse({ ...env, TENANCY_SNAPSHOT_SSE: "AES256" })?.encryption, {
    "x-amz-server-side-encryption": "AES256",
  });
  const kms = { ...env, TENANCY_SNAPSHOT_SSE: "aws:kms", TENANCY_SNAPSHOT_KMS_KEY: "alias/tenants" };
  assert.equal(parse(kms)?.encryption, {
    "x-amz-server-side-encryption": "aws:kms",
    "x-amz-server-side-encryption-aws-kms-key-id": "alias/tenants",
  });
});

test("says which variable is wrong", () => {
  const region = { TENANCY_SNAPSHOT_REGION: "eu-central-1" };
  for (const [env, says] of [
    [store, /TENANCY_SNAPSHOT_REGION is unset/],
    [region, /TENANCY_SNAPSHOT_REGION is set, which is for object storage/],
    [{ ...store, ...region, TENANCY_SNAPSHOT_KMS_KEY: "k" }, /set TENANCY_SNAPSHOT_SSE to aws:kms/],
    [{ ...store, ...region, TENANCY_SNAPSHOT_SSE: "none" }, /must be AES256/],
    [{ ...store, TENANCY_SNAPSHOT_ENDPOINT: "objects.example" }, /must be http:\/\/host/],
    [{ ...store, TENANCY_SNAPSHOT_ENDPOINT: "https://key:secret@objects.example" }, /must be http:\/\/host/],
  ] as const) {
    assert.throws(() => parse(env), says);
  }
  for (const text of [
    ...["s3://", "s3://UPPER/x", "s3://bucket//x", "s3://bucket/a//b", "s3://bucket/../b", "s3://bucket/a b"],
    ...["s3://bucket/a%20b", "gs://bucket", "s3://a..b", "", "/snapshots"],
  ]) {
    assert.throws(() => parse({ ...region, TENANCY_SNAPSHOT_STORE: text }), /must be volume, or s3/, text);
  }
});

test.run();
