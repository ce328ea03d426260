// @runtimes node bun
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createUsageController } from "../../../operator/usage/controller.ts";
import { noUsage } from "../../../operator/usage/usage-recorder.ts";
import { testOperator } from "../operator/test-operator.ts";

test("the usage controller waits before it repeats a merge that failed, and goes on recording hours", async () => {
  const asked = { hours: 0, merges: 0 };
  const usage = {
    ...noUsage,
    async recordHours() {
      asked.hours += 1;
    },
    async mergeBatches() {
      asked.merges += 1;
      throw new Error("nothing may be deleted");
    },
  };
  const { context } = testOperator({ usage });
  const controller = createUsageController(context);
  const { signal } = new AbortController();
  for (let times = 0; times < 3; times += 1) {
    const result = await controller.reconcile("hours", { signal });
    assert.ok((result?.requeueAfterMs ?? 0) > 0);
  }
  assert.equal(asked, { hours: 3, merges: 1 });
});

test("hours that are older than TENANCY_USAGE_TTL are deleted once a day, after the last hours are merged", async () => {
  const asked: string[] = [];
  let mergesFail = true;
  const usage = {
    ...noUsage,
    async mergeBatches() {
      if (mergesFail) throw new Error("not yet");
    },
    async dropBefore(hour: string) {
      asked.push(hour);
      return [];
    },
  };
  const { signal } = new AbortController();
  const reconcile = async (env: Record<string, string>, serverNow = Date.now): Promise<void> => {
    const controller = createUsageController(testOperator({ usage, env, serverNow }).context);
    for (let times = 0; times < 2; times += 1) await controller.reconcile("hours", { signal });
  };
  await reconcile({ TENANCY_USAGE_TTL: "30" });
  mergesFail = false;
  await reconcile({});
  assert.equal(asked, []);
  // The earlier one of two clocks counts.
  await reconcile({ TENANCY_USAGE_TTL: "30" }, () => Date.parse("2020-01-31T05:30:00Z"));
  assert.equal(asked, ["2020-01-01T05"]);
});

test.run();
