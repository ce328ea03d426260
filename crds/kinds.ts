import type { Claim } from "./claim.ts";
import { API_GROUP, API_VERSION } from "./labels.ts";
import type { Pool } from "./pool.ts";
import { defineResource } from "./resource.ts";
import type { Trigger } from "./trigger.ts";
import type { Workload } from "./workload.ts";

const ours = { group: API_GROUP, version: API_VERSION, namespaced: true } as const;

/** TenancyWorkload. */
export const workloads = defineResource<Workload>({ ...ours, plural: "tenancyworkloads", kind: "TenancyWorkload" });

/** TenancyPool. */
export const pools = defineResource<Pool>({ ...ours, plural: "tenancypools", kind: "TenancyPool" });

/** TenancyClaim. */
export const claims = defineResource<Claim>({ ...ours, plural: "tenancyclaims", kind: "TenancyClaim" });

/** TenancyTrigger. */
export const triggers = defineResource<Trigger>({ ...ours, plural: "tenancytriggers", kind: "TenancyTrigger" });
