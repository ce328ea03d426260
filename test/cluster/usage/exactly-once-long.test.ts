// @long 10 000 sessions take a quarter of an hour; exactly-once.test.ts proves the same with 200
// @limit 2400
import { suite } from "uvu";
import { startUsageStage, type UsageStage } from "./stage.ts";

const test = suite("usage counts each of 10 000 sessions once");
let stage: UsageStage;

test.before(async () => {
  stage = await startUsageStage("test-usage-long");
});
test.after(() => stage?.stop());

test("on the snapshots volume, while operators are killed right after any write", async () => {
  await stage.onVolume({ claims: 5000, mostWrites: 1000 });
});

test("in a bucket, while operators are killed right after any write", async () => {
  await stage.inBucket({ claims: 5000, mostWrites: 1000 });
});

test.run();
