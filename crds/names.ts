import { MAX_NAME_LENGTH, objectName } from "./object-name.ts";
import { pattern } from "./patterns.ts";

const TENANT_ID = new RegExp(pattern.tenantId);
const SUBDOMAIN = new RegExp(pattern.subdomain);

/** Whether the value can be a tenant id: a non-empty legal label value. */
export function isTenantId(value: unknown): value is string {
  return typeof value === "string" && value.length <= 63 && TENANT_ID.test(value);
}

/** Whether the value can name a workload, pool, claim or trigger: a DNS-1123 subdomain of at most 63 characters. */
export function isObjectName(value: unknown): value is string {
  return typeof value === "string" && value.length <= MAX_NAME_LENGTH && SUBDOMAIN.test(value);
}

/**
 * The name of a tenant's claim on a workload: `claim-<tenantId>-<workloadRef>` where that is legal.
 *
 * Two pairs can share it (`claim-a-b-c`), so whoever finds a claim by this name compares its `spec.tenantId` and
 * `spec.workloadRef`, and on a mismatch uses {@link hashedClaimName}.
 */
export function claimName(claim: { tenantId: string; workloadRef: string }): string {
  return objectName({ prefix: "claim", parts: [claim.tenantId, claim.workloadRef], form: "subdomain" });
}

/** The name of a claim whose {@link claimName} is taken by another pair; never equal to any pair's readable name. */
export function hashedClaimName(claim: { tenantId: string; workloadRef: string }): string {
  return objectName({ prefix: "claim", parts: [claim.tenantId, claim.workloadRef], hashed: true });
}

/** The name of a pod that is born for a tenant: `inst-<tenantId>-<workload>-<suffix>`. */
export function instanceName(pod: { tenantId: string; workload: string; suffix: string }): string {
  return objectName({ prefix: "inst", parts: [pod.tenantId, pod.workload], suffix: pod.suffix });
}

/** The name of a pod that is born in a pool, which it keeps when claimed: `inst-pool-<workload>-<suffix>`. */
export function poolInstanceName(pod: { workload: string; suffix: string }): string {
  return objectName({ prefix: "inst-pool", parts: [pod.workload], suffix: pod.suffix });
}

/** The name of a claim's Service: the claim's own where a Service can have it, which takes a DNS-1035 label. */
export function serviceName(claim: string): string {
  const isFree = isObjectName(claim) && /^[a-z][^.]*$/.test(claim) && !/--[0-9a-f]{24}$/.test(claim);
  return isFree ? claim : objectName({ prefix: "claim", parts: [claim], hashed: true, unique: true });
}

/** The name of a workload's network policy: `workload-<workload>`. */
export function policyName(workload: string): string {
  return objectName({ prefix: "workload", parts: [workload], unique: true });
}

/** The name that {@link policyName} gave before its hashes were longer; the same for most workloads. */
export function formerPolicyName(workload: string): string {
  return objectName({ prefix: "workload", parts: [workload] });
}
