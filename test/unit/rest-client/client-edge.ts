import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { chooseServe } from "../../../edge/edge.ts";
import { insideExec } from "../edge/inside/inside-exec.ts";
import { testEdge } from "../edge/test-edge.ts";
import { silentLog } from "../silent-log.ts";
import { untilCommandsEnd } from "../snapshots/local-exec.ts";

export const KEY = "the-key-of-this-edge";
/** The instance of tenant ann's claim on the workload `app`. */
export const INSTANCE = "inst-a";
const active: ClaimStatus = {
  ...{ phase: "Active", instanceId: INSTANCE, endpoint: { host: "10.0.0.1", port: 8080 }, source: "cold" },
  claimedAt: "2026-01-01T00:00:00Z",
};

/** An edge on a port, with the real program in its only instance, which runs on this machine. */
export async function clientEdge(options: Parameters<typeof testEdge>[0] = {}) {
  const edge = testEdge({ exec: await insideExec(), apiKey: KEY, clock: systemClock, ...options });
  edge.cluster.addWorkload("app");
  const { metadata } = edge.cluster.addClaim({ tenantId: "ann", workloadRef: "app", status: active });
  const annotations = { [annotation.claim]: metadata.name, [annotation.claimUid]: metadata.uid ?? "" };
  edge.cluster.addPod(INSTANCE, "Running", {
    ...{ labels: { [label.tenant]: "ann", [label.workload]: "app" }, annotations, podIP: "10.0.0.1" },
  });
  const serve = await chooseServe();
  const server = await serve({ handler: edge.handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
  const folder = mkdtempSync(join(tmpdir(), "tenancy-client-"));
  return {
    edge,
    url: server.url,
    /** For the files of the instance. */
    folder,
    async stop(): Promise<void> {
      await edge.channels.close();
      await server.stop({ graceMs: 500 });
      await untilCommandsEnd();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
