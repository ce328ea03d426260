import type { Claim } from "./claim.ts";
import { API_GROUP, API_VERSION } from "./labels.ts";
import type { Pool } from "./pool.ts";
import { defineResource } from "./resource.ts";
import type { Trigger } from "./trigger.ts";
import type { Workload } from "./workload.ts";

const ours = { group: API_GROUP, version: API_VERSION, namespaced: true } as const;

/** TenancyWorkload (spec.md, section 2.1). */
export const workloads = defineResource<Workload>({ ...ours, plural: "tenancyworkloads", kind: "TenancyWorkload" });

/** TenancyPool (spec.md, section 2.2). */
export const pools = defineResource<Pool>({ ...ours, plural: "tenancypools", kind: "TenancyPool" });

/** TenancyClaim (spec.md, section 2.3). */
export const claims = defineResource<Claim>({ ...ours, plural: "tenancyclaims", kind: "TenancyClaim" });

/** TenancyTrigger (spec.md, section 2.6). */
export const triggers = defineResource<Trigger>({ ...ours, plural: "tenancytriggers", kind: "TenancyTrigger" });
