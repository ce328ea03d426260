import type { Claim } from "../../../crds/claim.ts";
import { withDefaults } from "../../../crds/defaults.ts";
import { annotation } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import type { Workload } from "../../../crds/workload.ts";
import { readWorkload } from "../../api/workloads.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ControlServices } from "./control-services.ts";

/**
 * Refuses what needs the files of a running sandbox.
 *
 * @throws HttpError 400 if its instance saves none, 503 until it has one
 */
export async function requireSavable({ spec, status }: Claim, services: ControlServices): Promise<void> {
  const { cache, namespace } = services;
  const { instanceId, phase } = status ?? {};
  if (phase !== "Active" || instanceId === undefined)
    throw new HttpError(503, "the sandbox is starting; try again", { headers: { "retry-after": "1" } });
  const pod = cache.pods.store.get({ namespace, name: instanceId });
  // The pod saves what its workload said when it was made.
  const isKept =
    pod === undefined
      ? keepsFiles(await readWorkload(spec.workloadRef, services))
      : pod.metadata.annotations?.[annotation.overlayDirs] !== undefined;
  if (!isKept) throw new HttpError(400, keepsNothing(spec.workloadRef));
}

/** @throws HttpError 400 if the end of a sandbox's time discards its files */
export function requireKeptFiles(workload: Workload): void {
  const name = workload.metadata.name;
  if (!keepsFiles(workload)) throw new HttpError(400, `autoPause: ${keepsNothing(name)}`);
  if (withDefaults(workload.spec).idle.action === "hibernate") return;
  const why = `spec.idle.action of workload ${quote(name)} is destroy`;
  throw new HttpError(400, `autoPause: ${why}, so the files would be lost at the timeout; set it to hibernate`);
}

function keepsNothing(workload: string): string {
  return `workload ${quote(workload)} saves no files, so all would be lost: list the folders to save in its spec.filesystem.overlayDirs`;
}

/** Whether the files of a workload's instances are saved when they are released. */
function keepsFiles({ spec }: Pick<Workload, "spec">): boolean {
  return withDefaults(spec).filesystem.overlayDirs.length > 0;
}
