import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { startInformer } from "../../../crds/client/informer.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";

/** What the acting operator answers to a claim's n-th attempt, counted from 1; undefined: nothing, for ever. */
export type Answers = (claim: Claim, attempt: number) => ClaimStatus | undefined;

/**
 * Plays the operator on a real API server: answers each attempt of a claim with a status, and lets released claims go once
 * `letGo` says so.
 */
export async function startActingOperator(options: {
  client: ClusterClient;
  namespace: string;
  answers: Answers;
  letGo: (claim: Claim) => boolean;
  signal: AbortSignal;
}): Promise<{ recheck(): void }> {
  const { client, namespace, answers, letGo, signal } = options;
  const attempts = new Map<string, number>();
  const answered = new Set<string>();
  const { store, synced } = startInformer({
    client,
    resource: claims,
    namespace,
    indexes: {},
    onChange: ({ type, object }) => void (type === "deleted" || act(object)),
    signal,
  });
  await synced;
  return {
    recheck() {
      for (const claim of store.values()) void act(claim);
    },
  };

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
      if (letGo(claim)) await client.patch(claims, ref, { type: "merge", body: { metadata: { finalizers: null } } });
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
    await client.patch(claims, ref, {
      type: "merge",
      subresource: "status",
      body: { status: { reason: null, message: null, ...status, attempt: attempt ?? null } },
    });
  }
}
