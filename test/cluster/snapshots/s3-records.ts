import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createS3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { call, listAll, save } from "../../unit/snapshots/store-contract.ts";
import { testUsageStore } from "../../unit/usage/usage-store-contract.ts";
import { type TestBucket, useBuckets } from "./test-buckets.ts";

const test = suite<TestBucket & { usage: UsageStore }>("usage records in object storage");

useBuckets(test);
test.before.each((context) => {
  const { client, bucket } = context;
  context.usage = createS3Store({ client, bucket, prefix: "some/prefix" }).usageRecords;
});

testUsageStore(test);

test("a batch whose answer is lost is there once", async ({ faults, usage }) => {
  const hour = "2026-11-29T10";
  let writes = 0;
  faults.decide = ({ method }) => (method === "PUT" && ++writes === 1 ? "lost" : undefined);
  await usage.append({ hour, name: "a-1", lines: "x\n" }, call);
  assert.is(writes, 2);
  const lines: string[] = [];
  for await (const some of usage.read({ from: hour, to: "2026-11-29T11" }, call)) lines.push(...some);
  assert.equal(lines, ["x"]);
});

test("no list of archives has records", async ({ client, bucket }) => {
  const store = createS3Store({ client, bucket, prefix: "" });
  await save(store, "files");
  await store.usageRecords.append({ hour: "2026-11-29T10", name: "a-1", lines: "x\n" }, call);
  assert.is((await listAll(store, { versions: true })).length, 1);
  assert.is((await store.usage(call)).archives, 1);
  await store.tidy(call);
  for await (const lines of store.usageRecords.read({ from: "2026-11-29T10", to: "2026-11-29T11" }, call))
    assert.equal(lines, ["x"]);
});

test.run();
