import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";

/** The tenant and the workload of a claim. */
export interface ClaimKey {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/**
 * Claims for the tenant, with saved files if `resume` says so; waits at most 30 s.
 *
 * @param more other fields of the request's body. With `expiresInSeconds` the answer says if an existing claim expires
 *   later, or never
 */
export async function claim(
  key: ClaimKey,
  resume: boolean | { version: string },
  more: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const { tenantId, workloadRef } = key;
  const path = `/tenants/${encodeURIComponent(tenantId)}/claim`;
  const body = { workload: workloadRef, resume, ...more };
  const { source, message } = await call<ApiTypes["Claim"]>("POST", path, { body });
  const said = more.expiresInSeconds === undefined || message === undefined ? "" : ` ${message}.`;
  return `${tenantId} has an instance of ${workloadRef}${source === undefined ? "" : `, source ${source}`}.${said}`;
}

/** Whether a new claim call can choose other files: there is no claim, or it has failed. */
export function isOpen(claim: Pick<ApiTypes["Claim"], "phase"> | undefined): boolean {
  return claim === undefined || claim.phase === "Error";
}

/** Whether the claim's pod can be destroyed. During a release that would stop the save; use `Discard` then. */
export function isDestroyable({ phase, instanceId }: Pick<ApiTypes["Claim"], "phase" | "instanceId">): boolean {
  return instanceId !== undefined && (phase === "Active" || phase === "Pending");
}

/**
 * Claims again with the claim's current request. The page may show no claim or an old one, and a claim without files
 * would start with empty folders although the tenant asked for files.
 */
export async function retry(key: ClaimKey): Promise<string> {
  const { resume, resumeVersion } = await readClaim(key);
  return claim(key, resumeVersion === undefined ? resume : { version: resumeVersion });
}

/** Reads the claim's current state from the edge. */
export function readClaim(
  { tenantId, workloadRef }: ClaimKey,
  options: { signal?: AbortSignal } = {},
): Promise<ApiTypes["ClaimDetail"]> {
  return call("GET", `/tenants/${encodeURIComponent(tenantId)}/claims/${encodeURIComponent(workloadRef)}`, options);
}
