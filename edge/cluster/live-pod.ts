import type { Claim } from "../../crds/claim.ts";
import { isPodOf, podEndpoint } from "../../crds/claims/claim-pod.ts";
import { ifFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { orAborted } from "../../crds/waits.ts";
import { createSharedCall } from "./shared-call.ts";
import type { ClusterCache } from "./watch-cluster.ts";

/** An Active claim's pod as it is at this moment. */
export type LivePod =
  | {
      readonly state: "reachable";
      readonly endpoint: { readonly host: string; readonly port: number };
      readonly uid: string | undefined;
    }
  /** Its sandbox is being made anew: it gets another address. */
  | { readonly state: "unreachable" }
  /** It does not exist, is being deleted, or is not this claim's and this tenant's. */
  | { readonly state: "gone" };

/**
 * Asks the API server for a claim's pod. What a cache or a status says of its address is never sent to anybody, since
 * addresses are given to other tenants' pods soon after
 * (docs/decisions/claims.md#an-address-is-asked-for-at-every-use).
 *
 * @throws NetworkError, ApiError where it cannot be asked; the signal's reason when it is aborted
 */
export type FindLivePod = (claim: Claim, signal: AbortSignal) => Promise<LivePod>;

const ASK_MS = 10_000;

/** Returns what asks once for all who want to know of one claim's pod before the question has left. */
export function createFindLivePod(options: {
  client: ClusterClient;
  namespace: string;
  cache: Pick<ClusterCache, "pods">;
}): FindLivePod {
  const { client, namespace, cache } = options;
  const questions = new Map<string, { readonly ask: () => Promise<Pod | undefined>; callers: number }>();

  return async (claim, signal) => {
    const name = claim.status?.instanceId;
    if (name === undefined) return { state: "gone" };
    const question = questions.get(name) ?? { ask: createSharedCall((asks) => ask(name, asks)), callers: 0 };
    questions.set(name, question);
    question.callers += 1;
    let pod: Pod | undefined;
    try {
      pod = await orAborted(question.ask(), signal);
    } finally {
      question.callers -= 1;
      if (question.callers === 0) questions.delete(name);
    }
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined || !isPodOf(pod, claim))
      return { state: "gone" };
    const endpoint = podEndpoint(pod);
    return endpoint === undefined ? { state: "unreachable" } : { state: "reachable", endpoint, uid: pod.metadata.uid };
  };

  async function ask(name: string, asks: () => void): Promise<Pod | undefined> {
    asks();
    const pod = await ifFound(client.get(pods, { namespace, name }, { timeoutMs: ASK_MS }));
    if (pod !== undefined) cache.pods.put(pod);
    return pod;
  }
}
