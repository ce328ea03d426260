import { test } from "uvu";
import * as assert from "uvu/assert";
import { createTurns } from "../../../operator/snapshots/helper/store/turns.ts";
import { createVolumeUsage, NO_USAGE } from "../../../operator/snapshots/helper/store/volume-usage.ts";

test("VolumeUsage: a tenant that came while its neighbours were counted counts too", async () => {
  const tenants = ["a", "z"];
  const usage = createVolumeUsage({
    turns: createTurns(),
    tenants: { behind: async (after = "", most) => tenants.filter((name) => name > after).slice(0, most) },
    async listTenant(tenantId) {
      if (tenantId === "a")
        usage.note({ tenantId: "m", workloadRef: "w" }, { from: NO_USAGE, to: { archives: 1, bytes: 7 } });
      return [];
    },
  });
  assert.equal(await usage.all(), { archives: 1, bytes: 7, workloads: { w: { archives: 1, bytes: 7 } } });
});

test.run();
