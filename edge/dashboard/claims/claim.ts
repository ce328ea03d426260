import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";

/** Whose claim, on what. */
export interface ClaimKey {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/** Claims for the tenant, with files where `resume` says so; goes on for at most 30 s. */
export async function claim(key: ClaimKey, resume: boolean | { version: string }): Promise<string> {
  const { tenantId, workloadRef } = key;
  const path = `/tenants/${encodeURIComponent(tenantId)}/claim`;
  const { source } = await call<ApiTypes["Claim"]>("POST", path, { body: { workload: workloadRef, resume } });
  return `${tenantId} has an instance of ${workloadRef}${source === undefined ? "" : `, source ${source}`}.`;
}

/** Whether a claim call can begin anew with other files: there is no claim, or it has failed. */
export function isOpen(claim: Pick<ApiTypes["Claim"], "phase"> | undefined): boolean {
  return claim === undefined || claim.phase === "Error";
}

/** Whether the claim's pod can be destroyed: in a release that would end the save, which is for `Discard` to do. */
export function isDestroyable({ phase, instanceId }: Pick<ApiTypes["Claim"], "phase" | "instanceId">): boolean {
  return instanceId !== undefined && (phase === "Active" || phase === "Pending");
}

/**
 * Claims again as the claim asks for it now. What the page shows of it may be missing or of before, and a claim without
 * the files that the tenant asked for begins with empty folders.
 */
export async function retry(key: ClaimKey): Promise<string> {
  const { resume, resumeVersion } = await readClaim(key);
  return claim(key, resumeVersion === undefined ? resume : { version: resumeVersion });
}

/** The claim as the edge knows it at this moment. */
export function readClaim({ tenantId, workloadRef }: ClaimKey): Promise<ApiTypes["ClaimDetail"]> {
  return call("GET", `/tenants/${encodeURIComponent(tenantId)}/claims/${encodeURIComponent(workloadRef)}`);
}
