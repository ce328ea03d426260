import { ApiError, type Calls, pause } from "./call.ts";
import type { Claim, Operations } from "./operations.ts";

/** What a claim brings: `resume`, `expiresInSeconds`, `zone`, `labels`, `env`, `secrets` and `files`. */
export type ClaimBody = Omit<Operations["POST /api/v1/tenants/{id}/claim"]["body"], "workload" | "workloadRef">;

export interface ClaimOptions {
  /** How long to wait for a claim that takes longer than the 30 s of a call. @default 30 */
  readonly waitSeconds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const LOOK_AGAIN_MS = 1000;

/** Claims once. When the call's time is up it only looks at the claim, so that it never makes another one. */
export async function claimTenant(
  { tenant: id, workload, body = {} }: { tenant: string; workload: string; body?: ClaimBody | undefined },
  { call, waitSeconds = 30, signal }: ClaimOptions & Pick<Calls, "call">,
): Promise<Claim> {
  const endsAt = performance.now() + waitSeconds * 1000;
  let late: ApiError;
  try {
    return await call("POST /api/v1/tenants/{id}/claim", { path: { id }, body: { ...body, workload }, signal });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 504)) throw error;
    late = error;
  }
  let uid: string | undefined;
  while (performance.now() < endsAt) {
    const claim = await call("GET /api/v1/tenants/{id}/claims/{workload}", { path: { id, workload }, signal });
    uid ??= claim.uid;
    if (claim.uid !== uid) throw new ApiError("the claim ended, and another one has its place", { status: 409 });
    if (claim.phase === "Active") return claim;
    if (claim.phase === "Error") throw new ApiError(claim.message ?? "the claim failed", { status: 500 });
    if (claim.phase !== "Pending") throw late;
    await pause(LOOK_AGAIN_MS, signal);
  }
  throw late;
}
