import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../crds/client/clock.ts";
import { partsOfId, type UsageRecord } from "../../crds/usage/usage-record.ts";
import { call } from "../unit/snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../unit/snapshots/store-server.ts";
import { type UsedBy, usageLines } from "../unit/usage/usage-lines.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";

/** The dashboard before a cluster in memory, with a real store that has usage. */
export interface UsageStage extends FakeStage {
  readonly served: ServedStore;
}

/** @param options of the edge */
export async function startUsageStage(
  sessions: readonly UsedBy[],
  options: Parameters<typeof startFakeStage>[0] = {},
): Promise<UsageStage> {
  const root = mkdtempSync(join(tmpdir(), "tenancy-usage-"));
  const served = await serveStore(root);
  const batches = new Map<string, string>();
  for (const line of usageLines(sessions).flatMap((lines) => lines.trimEnd().split("\n"))) {
    const { hour } = partsOfId(JSON.parse(line) as UsageRecord);
    batches.set(hour, `${batches.get(hour) ?? ""}${line}\n`);
  }
  for (const [hour, lines] of batches) await served.usage.append({ hour, name: "a-1", lines }, call);
  const stage = await startFakeStage({ clock: systemClock, store: served.store, usage: served.usage, ...options });
  stage.edge.cluster.addSnapshots();
  return {
    ...stage,
    served,
    async stop() {
      await stage.stop();
      await served.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
