// @runtimes node bun
import { test } from "uvu";
import * as assert from "uvu/assert";
import { HOUR_MS, hourAt } from "../../../crds/usage/usage-hour.ts";
import { createStorageController } from "../../../operator/usage/storage-controller.ts";
import { silentLog } from "../silent-log.ts";

const { signal } = new AbortController();

test("the space of archives is recorded again after the next hours, soon if these are over, later if it failed", async () => {
  let next = "";
  const storage = {
    async record(hour: string) {
      assert.ok(hour <= hourAt(Date.now()));
      if (next === "") throw new Error("the store fails");
      return next;
    },
  };
  const controller = createStorageController({ log: silentLog }, storage);
  const again = async () => (await controller.reconcile("hours", { signal }))?.requeueAfterMs ?? 0;
  const failed = await again();
  assert.ok(failed >= 60_000, String(failed));
  next = hourAt(Date.now() - 5 * HOUR_MS);
  assert.is(await again(), 1000);
  next = hourAt(Date.now() + 5 * HOUR_MS);
  assert.ok((await again()) > 4 * HOUR_MS - 60_000);
});

test("without archives that can be listed nothing is recorded", () => {
  assert.equal(createStorageController({ log: silentLog }, undefined).initial, []);
});

test.run();
