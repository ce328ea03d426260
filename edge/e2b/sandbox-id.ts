import type { ClaimKey } from "../../crds/claims/claim-key.ts";
import { isObjectName, isTenantId } from "../../crds/names.ts";

const BORDER = "--";

/**
 * The id of a sandbox, `<workload>--<tenant>`: it says which claim the sandbox is, also while it is paused, so that
 * nothing has to be stored for it.
 *
 * @returns undefined for a workload that has `--` in its name, which cannot be a template
 */
export function sandboxId({ workloadRef, tenantId }: ClaimKey): string | undefined {
  return workloadRef.includes(BORDER) ? undefined : `${workloadRef}${BORDER}${tenantId}`;
}

/** The claim of a sandbox; undefined for a text that is no id. */
export function readSandboxId(text: string): ClaimKey | undefined {
  const border = text.indexOf(BORDER);
  if (border < 0) return undefined;
  const workloadRef = text.slice(0, border);
  const tenantId = text.slice(border + BORDER.length);
  return isObjectName(workloadRef) && isTenantId(tenantId) ? { workloadRef, tenantId } : undefined;
}
