import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { isAlreadyExists, isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { startInformer } from "../../../crds/client/watch/informer.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";

/** What the acting operator answers to a claim's n-th attempt, counted from 1; undefined: nothing, for ever. */
export type Answers = (claim: Claim, attempt: number) => ClaimStatus | undefined;

/**
 * Plays the operator on a real API server: answers each attempt of a claim with a status, and lets released claims go.
 * An Active claim has the pod that its status names, as a kubelet would show it, which goes with the claim.
 */
export async function startActingOperator(options: {
  client: ClusterClient;
  namespace: string;
  answers: Answers;
  signal: AbortSignal;
}): Promise<void> {
  const { client, namespace, answers, signal } = options;
  const attempts = new Map<string, number>();
  const answered = new Set<string>();
  const { synced } = startInformer({
    client,
    resource: claims,
    namespace,
    indexes: {},
    onChange: ({ type, object }) => void (type === "deleted" || act(object)),
    signal,
  });
  await synced;

  async function act(claim: Claim): Promise<void> {
    try {
      await step(claim);
    } catch (error) {
      // Somebody else wrote first: the next event of the claim brings it back here.
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
  }

  async function step(claim: Claim): Promise<void> {
    const { name, uid = "" } = claim.metadata;
    const ref = { namespace, name };
    if (claim.metadata.deletionTimestamp !== undefined) {
      await client
        .delete(pods, { namespace, name: `${claim.status?.instanceId}` }, { gracePeriodSeconds: 0 })
        .catch(ifGone);
      await client.patch(claims, ref, { type: "merge", body: { metadata: { finalizers: null } } });
      return;
    }
    const attempt = claim.metadata.annotations?.[annotation.attempt];
    const key = `${uid}/${attempt}`;
    if (answered.has(key)) return;
    answered.add(key);
    const count = (attempts.get(uid) ?? 0) + 1;
    attempts.set(uid, count);
    const status = answers(claim, count);
    if (status === undefined) return;
    if (status.phase === "Active") await createPodOf(claim, status, client);
    await client.patch(claims, ref, {
      type: "merge",
      subresource: "status",
      body: { status: { reason: null, message: null, ...status, attempt: attempt ?? null } },
    });
  }
}

/** Makes the pod of an Active claim, running at the claim's endpoint. */
async function createPodOf(
  { metadata, spec }: Claim,
  { instanceId = "", endpoint }: ClaimStatus,
  client: ClusterClient,
): Promise<void> {
  const { name, namespace = "", uid = "" } = metadata;
  const container = { name: "workload", image: "simulated/hello:1" };
  const pod: Pod = {
    metadata: {
      name: instanceId,
      namespace,
      labels: { [label.managed]: "true", [label.tenant]: spec.tenantId, [label.workload]: spec.workloadRef },
      annotations: { [annotation.claimUid]: uid, [annotation.claim]: name },
    },
    spec: { containers: [{ ...container, ports: [{ containerPort: endpoint?.port ?? 0 }] }] },
  };
  try {
    await client.create(pods, pod);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
  const state = { running: { startedAt: "2026-01-01T00:00:00Z" } };
  const containerStatuses = [{ ...container, imageID: "", ready: true, restartCount: 0, state }];
  const podIPs = [{ ip: endpoint?.host }];
  const conditions = [{ type: "Ready", status: "True" }];
  const status = { phase: "Running", podIP: endpoint?.host, podIPs, conditions, containerStatuses };
  await client.patch(pods, { namespace, name: instanceId }, { type: "merge", subresource: "status", body: { status } });
}

function ifGone(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
