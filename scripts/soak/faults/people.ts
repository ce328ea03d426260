import { pause } from "../../cluster/process/wait-until.ts";
import type { Decisions } from "../decisions.ts";
import { expect } from "../history.ts";
import { CLAIMS_PATH, type Claim, NAMESPACE, PODS_PATH, POOLS_PATH, WORKLOADS_PATH } from "../objects.ts";
import type { FaultTargets } from "./faults.ts";
import { SMALL } from "./fences.ts";

/** What people with rights in the namespace do to objects that the operator looks after. */

const HOLD = "example.com/hold";
const QUOTAS_PATH = `/api/v1/namespaces/${NAMESPACE}/resourcequotas`;
const MERGE = "application/merge-patch+json";
/** A workload that people delete and make again. Its tenants keep no files. */
export const FLEETING = "fleeting";

const EDITS: readonly object[] = [
  { labels: { "tenancy.dev/managed": null } },
  { labels: { "tenancy.dev/tenant": "mallory" } },
  { labels: { "tenancy.dev/workload": null } },
  { annotations: { "tenancy.dev/claim-uid": null } },
  { annotations: { "tenancy.dev/claim-uid": "00000000-0000-0000-0000-000000000000" } },
];

/** Changes what a claim's pod is known by; the operator puts it back. */
export async function editPod({ api, checker }: FaultTargets, decisions: Decisions): Promise<void> {
  const chosen = decisions.number();
  const bound = [...checker.pods.values()].filter(
    ({ handedOutTo, deletingAt, excuse }) => handedOutTo.size > 0 && deletingAt === undefined && excuse() === undefined,
  );
  const record = bound[Math.floor(chosen * bound.length)];
  const metadata = decisions.pick(EDITS);
  if (record === undefined) return;
  const { name, uid } = record.pod.metadata;
  checker.edited(uid);
  await patch(api, `${PODS_PATH}/${name}`, { metadata });
}

/** Takes a warm pod out of its pool. */
export async function editWarmPod({ api, checker }: FaultTargets, decisions: Decisions): Promise<void> {
  const chosen = decisions.number();
  const warm = [...checker.pods.values()].filter(
    ({ pod, tenant, deletingAt }) =>
      tenant === undefined && deletingAt === undefined && pod.metadata.labels?.["tenancy.dev/pool"] !== undefined,
  );
  const record = warm[Math.floor(chosen * warm.length)];
  if (record === undefined) return;
  await patch(api, `${PODS_PATH}/${record.pod.metadata.name}`, { metadata: { labels: { "tenancy.dev/pool": null } } });
}

/** Holds a claim by a finalizer of somebody else for a while. */
export async function holdClaim({ api }: FaultTargets, decisions: Decisions, signal: AbortSignal): Promise<void> {
  const chosen = decisions.number();
  const claims = await listClaims(api);
  const claim = claims[Math.floor(chosen * claims.length)];
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return;
  const { name, resourceVersion, finalizers = [] } = claim.metadata;
  const metadata = { resourceVersion, finalizers: [...finalizers, HOLD] };
  await patch(api, `${CLAIMS_PATH}/${name}`, { metadata });
  await pause(decisions.between(1000, 10_000), signal);
  await releaseHolds(api);
}

/** Leaves room for no further pod for a while. */
export async function fillQuota({ api }: FaultTargets, decisions: Decisions, signal: AbortSignal): Promise<void> {
  const hard = { pods: "0" };
  await expect(api, "POST", QUOTAS_PATH, { metadata: { name: "full" }, spec: { hard } });
  // Admission goes by the status, which a controller fills in that a control plane alone lacks.
  await patch(api, `${QUOTAS_PATH}/full/status`, { status: { hard, used: { pods: "0" } } });
  await pause(decisions.between(2000, 8000), signal);
  await api.call({ method: "DELETE", path: `${QUOTAS_PATH}/full` });
}

/** Deletes a workload and its pool, and makes both again when they are gone. */
export async function remakeWorkload(targets: FaultTargets, decisions: Decisions, signal: AbortSignal): Promise<void> {
  const { api } = targets;
  for (const path of [`${WORKLOADS_PATH}/${FLEETING}`, `${POOLS_PATH}/${FLEETING}`])
    await api.call({ method: "DELETE", path });
  await pause(decisions.between(500, 5000), signal);
  // Claims hold the workload.
  await deleteClaims(targets);
  for (let tries = 0; tries < 40 && !signal.aborted; tries += 1) {
    await pause(250, signal);
    if (await makeFleeting(api)) return;
  }
}

/**
 * Makes what is missing of the workload and its pool; false while one of them is being deleted. A pool that is made
 * before its workload is gone would hold that one.
 */
export async function makeFleeting(api: FaultTargets["api"]): Promise<boolean> {
  const common = { apiVersion: "tenancy.dev/v1alpha1", metadata: { name: FLEETING } };
  const spec = { image: { ref: "localhost/tenancy-hello:1" }, resources: SMALL, network: { ports: [8080] } };
  const isMade = async (path: string, kind: string, spec: object): Promise<boolean> => {
    const { status } = await api.call({ method: "POST", path, body: { ...common, kind, spec } });
    const { text } = await api.call({ method: "GET", path: `${path}/${FLEETING}` });
    return [201, 409].includes(status) && !text.includes("deletionTimestamp");
  };
  return (
    (await isMade(WORKLOADS_PATH, "TenancyWorkload", spec)) &&
    (await isMade(POOLS_PATH, "TenancyPool", { workloadRef: FLEETING, size: 1 }))
  );
}

/** Ends what people have begun: everything can come to rest after it. */
export async function endPeople(targets: FaultTargets): Promise<void> {
  const { api, checker } = targets;
  await api.call({ method: "DELETE", path: `${QUOTAS_PATH}/full` });
  await releaseHolds(api);
  const until = Date.now() + 120_000;
  while (!(await makeFleeting(api))) {
    if (Date.now() > until) {
      checker.violate("no claim stuck", `workload ${FLEETING} or its pool is not deleted after 120 s`, [FLEETING]);
      return;
    }
    await deleteClaims(targets);
    await pause(500);
  }
}

async function deleteClaims({ api, checker }: FaultTargets): Promise<void> {
  for (const { spec, metadata } of await listClaims(api)) {
    if (spec.workloadRef !== FLEETING) continue;
    await checker.whileReleasing(spec, () => api.call({ method: "DELETE", path: `${CLAIMS_PATH}/${metadata.name}` }));
  }
}

async function releaseHolds(api: FaultTargets["api"]): Promise<void> {
  for (const { metadata } of await listClaims(api)) {
    const { name, resourceVersion, finalizers = [] } = metadata;
    if (!finalizers.includes(HOLD)) continue;
    const kept = finalizers.filter((finalizer) => finalizer !== HOLD);
    const isDone = await patch(api, `${CLAIMS_PATH}/${name}`, { metadata: { resourceVersion, finalizers: kept } });
    // The claim has changed since it was read.
    if (!isDone) return releaseHolds(api);
  }
}

async function listClaims(api: FaultTargets["api"]): Promise<Claim[]> {
  return (JSON.parse(await expect(api, "GET", CLAIMS_PATH)) as { items: Claim[] }).items;
}

/** @returns whether it was done; not where the object is gone or has changed */
async function patch(api: FaultTargets["api"], path: string, body: object): Promise<boolean> {
  const { status, text } = await api.call({ method: "PATCH", path, body, contentType: MERGE });
  if (status < 300) return true;
  if (status === 404) return true;
  if (status === 409 || status === 422) return false;
  throw new Error(`Cannot change ${path}: ${status} ${text}`);
}
