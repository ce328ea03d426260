import type { Claim, ClaimStatus } from "../claim.ts";
import { programContainer } from "../claims/claim-pod.ts";
import { withDefaults } from "../defaults.ts";
import { bytesOf } from "../environment.ts";
import type { Pod } from "../kubernetes.ts";
import type { MostKept } from "../snapshots/snapshot-store.ts";
import type { Workload } from "../workload.ts";
import type { TenantLimits, TenantQuota } from "./tenant-quotas.ts";

/** What claims take of their tenant's quota. */
export interface Usage {
  readonly activeClaims: number;
  readonly vcpus: number;
  readonly memoryMb: number;
}

/** Whether a claim has an instance, gets another one, or keeps one until its files are saved. */
export function holdsInstance({ status }: Claim): boolean {
  const { phase, claimedAt } = status ?? {};
  return phase === "Active" || phase === "Releasing" || phase === "ReleaseFailed" || claimedAt !== undefined;
}

/** What an instance takes that is started for the workload now; by the defaults if the workload is gone. */
export function usageOf(workload: Workload | undefined): Usage {
  const { vcpus, memoryMb } = withDefaults(workload?.spec ?? { image: {} }).resources;
  return { activeClaims: 1, vcpus, memoryMb };
}

/** What a pod's program may use: its limits, also where it requests less. Undefined if it has none. */
export function resourcesOf({ spec }: Pick<Pod, "spec">): ClaimStatus["resources"] {
  const { cpu = "", memory = "" } = programContainer(spec)?.resources?.limits ?? {};
  // The API server writes 1000 CPUs as 1k.
  const [, count, unit = ""] = /^(\d+)([mk]?)$/.exec(cpu) ?? [];
  const thousandths = Number(count) * ({ m: 1, k: 1_000_000 }[unit] ?? 1000);
  const [vcpus, memoryMb] = [thousandths / 1000, bytesOf(memory) / 2 ** 20];
  return Number.isFinite(vcpus) && Number.isInteger(memoryMb) ? { vcpus, memoryMb } : undefined;
}

/** What the instance of a claim takes, as its status says. */
export function usageShown({ status }: Claim): Usage | undefined {
  return status?.resources && { activeClaims: 1, ...status.resources };
}

export function sum(usages: Iterable<Usage>): Usage {
  let [activeClaims, vcpus, memoryMb] = [0, 0, 0];
  for (const each of usages) {
    activeClaims += each.activeClaims;
    vcpus += each.vcpus;
    memoryMb += each.memoryMb;
  }
  // Thousandths have no exact sum: three of 0.1 and one of 0.7 must fit into 1.
  return { activeClaims, vcpus: Math.round(vcpus * 1000) / 1000, memoryMb };
}

/** What may be kept of a tenant's saved files: the lower of both limits. */
export function mostKept(most: MostKept, limits: TenantLimits | undefined): MostKept {
  const { snapshotMb } = limits ?? {};
  if (snapshotMb === undefined) return most;
  return { ...most, tenantBytes: Math.min(most.tenantBytes ?? Number.POSITIVE_INFINITY, snapshotMb * 2 ** 20) };
}

const words = {
  activeClaims: "claims with an instance",
  vcpus: "vCPU",
  memoryMb: "MB of memory",
} as const;

/**
 * Why a tenant may get no further instance: which limit it is, its value, and what is used. Undefined if the instance
 * fits.
 */
export function overQuota(
  { tenantId, quota }: { tenantId: string; quota: TenantQuota },
  { used, needs }: { used: Usage; needs: Usage },
): string | undefined {
  const after = sum([used, needs]);
  for (const [name, unit] of Object.entries(words) as [keyof typeof words, string][]) {
    const limit = quota.limits[name];
    if (limit === undefined || after[name] <= limit) continue;
    const asked = name === "activeClaims" ? "" : `, and this instance takes ${needs[name]}`;
    const remedy = needs[name] > limit ? "raise its limit" : "release one, or raise its limit, then claim again";
    return `tenant "${tenantId}" uses ${used[name]} of ${limit} ${unit} (${placeOf(quota, name)})${asked}: ${remedy}`;
  }
  return undefined;
}

/** Names a limit where a person finds it. */
export function placeOf({ className }: TenantQuota, name: string): string {
  return className === undefined ? name : `${name} of class ${className}`;
}
