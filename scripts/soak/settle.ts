import type { ApiClient } from "../cluster/kubernetes/api-client.ts";
import { pause } from "../cluster/process/wait-until.ts";
import type { Checker } from "./checker.ts";
import { expect } from "./history.ts";
import { CLAIMS_PATH, type Claim, IDLE, PODS_PATH, POOLS_PATH, type Pod, type Pool } from "./objects.ts";

/** The time in which everything should be at rest after the faults have ended. */
const SHOULD_REST_MS = 60_000;

/** What is not at rest yet, by the invariant that it violates if it stays so. */
interface Unrest {
  readonly invariant: "no claim stuck" | "no orphan pod" | "endpoint is the claim's own" | "pool is full";
  readonly message: string;
  readonly about: readonly string[];
}

/**
 * Waits until every claim is Active with its pod, in Error with a reason, or gone, and every pod belongs to such a
 * claim or to a pool. It reads from the API server each time. Returns the milliseconds that this took. What is not at
 * rest in time is a violation.
 */
export async function settle(options: {
  api: ApiClient;
  checker: Checker;
  /** The time in which even a busy machine must be at rest. */
  mustRestMs: number;
  signal: AbortSignal;
}): Promise<{ ms: number; isLate: boolean }> {
  const { api, checker, mustRestMs, signal } = options;
  const startedAt = performance.now();
  const spent = (): number => performance.now() - startedAt;
  let unrest = await look(api);
  while (unrest.length > 0 && spent() < mustRestMs && !signal.aborted) {
    await pause(500, signal);
    unrest = await look(api);
  }
  if (!signal.aborted) {
    for (const { invariant, message, about } of unrest)
      checker.violate(invariant, `${message}, ${mustRestMs / 1000} s after the last fault`, about);
  }
  return { ms: spent(), isLate: spent() > SHOULD_REST_MS };
}

async function look(api: ApiClient): Promise<Unrest[]> {
  const claims = (JSON.parse(await expect(api, "GET", CLAIMS_PATH)) as { items: Claim[] }).items;
  const pools = (JSON.parse(await expect(api, "GET", POOLS_PATH)) as { items: Pool[] }).items;
  const pods = (JSON.parse(await expect(api, "GET", PODS_PATH)) as { items: Pod[] }).items.filter(
    ({ metadata }) => metadata.labels?.["tenancy.dev/managed"] === "true" || metadata.name.startsWith("inst-"),
  );
  const byUid = new Map(claims.map((claim) => [claim.metadata.uid, claim]));
  return [
    ...claims.flatMap((claim) => claimUnrest(claim, pods)),
    ...pods.flatMap((pod) => podUnrest(pod, byUid)),
    ...pools.flatMap((pool) => poolUnrest(pool, pods)),
  ];
}

/** Each pool must have its number of ready pods, also in its status. */
function poolUnrest({ metadata: { name }, spec: { size }, status = {} }: Pool, pods: readonly Pod[]): Unrest[] {
  const ready = pods.filter(
    ({ metadata: { labels = {} } }) =>
      labels["tenancy.dev/pool"] === name && labels["tenancy.dev/pool-status"] === "ready",
  );
  const wrong = status.conditions?.find(
    ({ type, status: is }) => (type === "Degraded" && is === "True") || (type === "Ready" && is === "False"),
  );
  if (ready.length === size && status.ready === size && wrong === undefined) return [];
  const message = `pool ${name} of ${size} has ${ready.length} ready pods, says ${status.ready}${wrong ? `, and ${wrong.type} ${wrong.status}: ${wrong.message}` : ""}`;
  return [{ invariant: "pool is full", message, about: [name] }];
}

function claimUnrest({ metadata, spec, status = {} }: Claim, pods: readonly Pod[]): Unrest[] {
  const about = [metadata.uid, metadata.name, JSON.stringify([spec.tenantId, spec.workloadRef])];
  const { phase = "Pending", reason, message, instanceId, endpoint } = status;
  if (metadata.deletionTimestamp !== undefined || !["Active", "Error"].includes(phase)) {
    const state = `${phase} ${reason ?? ""} ${message ?? ""}`.trim();
    const isDeleted = metadata.deletionTimestamp !== undefined ? ", deleted" : "";
    return [{ invariant: "no claim stuck", message: `claim ${metadata.name} is ${state}${isDeleted}`, about }];
  }
  if (phase === "Error") {
    if (reason !== undefined && reason !== "") return [];
    return [{ invariant: "no claim stuck", message: `claim ${metadata.name} is in Error without a reason`, about }];
  }
  // One whose pod was destroyed on request keeps its phase, without a pod, until it is claimed again.
  const isDestroyed = metadata.annotations?.["tenancy.dev/destroyed"] === instanceId && endpoint === undefined;
  if (spec.workloadRef === IDLE && !isDestroyed)
    return [{ invariant: "no claim stuck", message: `claim ${metadata.name} is idle and still Active`, about }];
  if (endpoint === undefined) return [];
  const pod = pods.find(({ metadata: { name } }) => name === instanceId);
  const isOwn = pod?.metadata.annotations?.["tenancy.dev/claim-uid"] === metadata.uid;
  if (isOwn && pod?.metadata.deletionTimestamp === undefined && pod?.status?.podIP === endpoint.host) return [];
  const found = pod === undefined ? "is gone" : `has ${pod.status?.podIP}`;
  return [
    {
      invariant: "endpoint is the claim's own",
      message: `claim ${metadata.name} shows ${endpoint.host} of pod ${instanceId}, which ${found}`,
      about: [...about, instanceId ?? ""],
    },
  ];
}

function podUnrest({ metadata }: Pod, claims: ReadonlyMap<string, Claim>): Unrest[] {
  const { name, uid, labels = {}, annotations = {}, deletionTimestamp } = metadata;
  const claimUid = annotations["tenancy.dev/claim-uid"];
  const about = [uid, name, claimUid ?? ""];
  const orphan = (message: string): Unrest[] => [
    { invariant: "no orphan pod", message: `pod ${name} ${message}`, about },
  ];
  if (deletionTimestamp !== undefined) return orphan("is being deleted");
  if (labels["tenancy.dev/managed"] !== "true") return orphan("has lost its label");
  if (claimUid === undefined) return labels["tenancy.dev/pool"] === undefined ? orphan("has no claim and no pool") : [];
  const claim = claims.get(claimUid);
  if (claim === undefined) return orphan(`is of claim ${claimUid}, which is gone`);
  if (labels["tenancy.dev/tenant"] !== claim.spec.tenantId)
    return orphan(`says tenant ${labels["tenancy.dev/tenant"]}`);
  return claim.status?.instanceId === name && claim.status.phase === "Active"
    ? []
    : orphan(`is of claim ${claim.metadata.name}, which is ${claim.status?.phase} with ${claim.status?.instanceId}`);
}
