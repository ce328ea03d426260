import type { Claim } from "../../../crds/claim.ts";
import type { Lifecycle } from "./lifecycle.ts";

const FILL = "$b dd if=/dev/urandom of=/data/large bs=1M count=24 2>/dev/null; echo end > /data/small";
const DIGEST = "cd /data; $b find . -type f | $b sort | $b xargs $b sha256sum";

/** Digests of the files in a claim's pod. */
export function digestOfMany(life: Lifecycle, { status }: Claim): Promise<string> {
  return life.run(status?.instanceId, DIGEST);
}

/**
 * Claims and fills 24 MiB, which takes long enough to break it off; resolves with the claim and a digest of its files.
 */
export async function fillClaim(life: Lifecycle, tenantId: string, workloadRef: string): Promise<[Claim, string]> {
  const claim = await life.claim(tenantId, workloadRef, false);
  await life.run(claim.status?.instanceId, FILL);
  return [claim, await digestOfMany(life, claim)];
}

/** Saves 24 MiB for a tenant; resolves with a digest of them. */
export async function keepMany(life: Lifecycle, tenantId: string, workloadRef: string): Promise<string> {
  const [claim, digest] = await fillClaim(life, tenantId, workloadRef);
  await life.release(claim);
  return digest;
}

export function isActive(status: Claim["status"]): boolean {
  return status?.phase === "Active";
}
