import { suite } from "uvu";
import { startUsageStage, type UsageStage } from "./stage.ts";

const test = suite("usage counts each session once");
let stage: UsageStage;

test.before(async () => {
  stage = await startUsageStage("test-usage");
});
test.after(() => stage?.stop());

test("on the snapshots volume, while operators are killed right after any write", async () => {
  await stage.onVolume({ claims: 200, mostWrites: 150 });
});

test.run();
