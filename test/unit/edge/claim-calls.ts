import type { ClaimStatus } from "../../../crds/claim.ts";
import { askedCheckpoint } from "../../../crds/claims/asked-checkpoint.ts";
import { eventually } from "../../eventually.ts";
import { type Answer, type TestEdge, testEdge } from "./test-edge.ts";

/** Claim calls of tenant a on the workload app, and what the operator makes of their claim. */
export const pair = { tenantId: "a", workloadRef: "app" };
export const NAME = "claim-a-app";
export const active: ClaimStatus = {
  phase: "Active",
  instanceId: "inst-a-app-x1",
  endpoint: { host: "10.0.0.9", port: 8080 },
  source: "pool",
  claimedAt: "2026-01-01T00:00:05Z",
};
export const answered = { ...pair, ...active };

export function claim(edge: TestEdge, body: object = { workload: "app" }, signal?: AbortSignal): Promise<Answer> {
  return edge.call("POST /api/v1/tenants/a/claim", { body, ...(signal !== undefined && { signal }) });
}

export function release(edge: TestEdge, query = "", body: object = { workload: "app" }): Promise<Answer> {
  return edge.call(`POST /api/v1/tenants/a/release${query}`, { body });
}

/** Resolves when so many calls wait for a change of their claim. */
export function waiting(edge: TestEdge, count = 1): Promise<void> {
  return eventually(() => edge.cluster.waiters.size === count);
}

/** Answers the next checkpoint that the claim asks for, as the operator does. @returns the request */
export async function answerCheckpoint(
  { cluster }: TestEdge,
  name: string,
  answer: Omit<NonNullable<ClaimStatus["checkpoint"]>, "request">,
): Promise<string> {
  let request: string | undefined;
  await eventually(() => {
    request = askedCheckpoint(cluster.claim(name))?.request;
    return request !== undefined;
  });
  const { status = active } = cluster.claim(name);
  cluster.setStatus(name, { ...status, checkpoint: { ...answer, request: request ?? "" } });
  return request ?? "";
}

export function edgeWithWorkload(options?: Parameters<typeof testEdge>[0]): TestEdge {
  const edge = testEdge(options);
  edge.cluster.addWorkload("app");
  return edge;
}
