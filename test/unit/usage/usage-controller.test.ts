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

test.run();
