import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import type { S3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { putContext, readContext, testContexts } from "../../unit/snapshots/context-contract.ts";
import { call } from "../../unit/snapshots/store-contract.ts";
import { type TestBucket, useBuckets } from "./test-buckets.ts";

interface Context extends TestBucket {
  contexts: BuildContexts;
  names(): Promise<string[]>;
}

const test = suite<Context>("build contexts in object storage");

useBuckets(test);
test.before.each((context) => {
  const { client, bucket } = context;
  context.contexts = createS3Store({ client, bucket, prefix: "some/prefix" }).contexts;
  context.names = () => namesIn(client);
});

async function namesIn(client: S3Client): Promise<string[]> {
  const answer = await client.send({ method: "GET", query: { "list-type": "2" }, signal: call.signal });
  const keys = [...answer.body.toString("utf8").matchAll(/<Key>([^<]*)/g)].map(([, name = ""]) => name);
  return keys.map((key) => key.replace("some/prefix/contexts/", ""));
}

testContexts(test);

test("whichever answer is lost, a context is kept once", async ({ faults, contexts, names }) => {
  for (let lost = 0; lost < 4; lost += 1) {
    let writes = 0;
    faults.decide = ({ method }) => (method !== "GET" && writes++ === lost ? "lost" : undefined);
    await putContext(contexts, `of ${lost}`);
    faults.decide = () => undefined;
    assert.is(await readContext(contexts, `of ${lost}`), `of ${lost}`);
    assert.is((await names()).length, lost + 1);
  }
});

test.run();
