import type { Claim } from "../../crds/claim.ts";
import { isPodOf, isPodReady, podEndpoint } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { orAborted } from "../../crds/waits.ts";
import { createSharedCall } from "./shared-call.ts";

/** An Active claim's pod as it is at this moment. */
export type LivePod =
  | {
      readonly state: "reachable";
      readonly endpoint: { readonly host: string; readonly port: number };
      readonly uid: string | undefined;
      /** Whether its program answers; not while its container starts again. */
      readonly isReady: boolean;
    }
  /** Its sandbox is being made anew: it gets another address. */
  | { readonly state: "unreachable" }
  /** It does not exist, is being deleted, or is not this claim's and this tenant's. */
  | { readonly state: "gone" }
  /** The claim itself is being deleted, or is gone: `present` is what has its name now. */
  | { readonly state: "released"; readonly present: Claim | undefined };

/**
 * Asks the API server for a claim's pod, and whether the claim is still there. What a cache or a status says of its
 * address is never sent to anybody, since addresses are given to other tenants' pods soon after. A pod that is being
 * released is given to nobody, since its files may be saved already
 * (docs/decisions/claims.md#an-address-is-asked-for-at-every-use).
 *
 * @param options.withClaim whether the claim is asked for too. @default true
 * @throws NetworkError, ApiError where it cannot be asked; the signal's reason when it is aborted
 */
export type FindLivePod = (claim: Claim, signal: AbortSignal, options?: { withClaim?: boolean }) => Promise<LivePod>;

const ASK_MS = 10_000;

/** Returns what asks once for all who want to know of one claim or pod before the question has left. */
export function createFindLivePod(options: { cluster: Cluster }): FindLivePod {
  const { cluster } = options;
  const askPod = sharedByName((name) => cluster(pods).named(name).find({ timeoutMs: ASK_MS, refresh: true }));
  const askClaim = sharedByName((name) => cluster(claims).named(name).find({ timeoutMs: ASK_MS }));

  return async (claim, signal, { withClaim = true } = {}) => {
    const name = claim.status?.instanceId;
    if (name === undefined) return { state: "gone" };
    const [pod, present] = await Promise.all([
      askPod(name, signal),
      withClaim ? askClaim(claim.metadata.name, signal) : claim,
    ]);
    if (present?.metadata.uid !== claim.metadata.uid || present?.metadata.deletionTimestamp !== undefined)
      return { state: "released", present };
    if (!isLivePodOf(pod, claim)) return { state: "gone" };
    const endpoint = podEndpoint(pod);
    if (endpoint === undefined) return { state: "unreachable" };
    return { state: "reachable", endpoint, uid: pod.metadata.uid, isReady: isPodReady(pod) };
  };
}

function isLivePodOf(pod: Pod | undefined, claim: Claim): pod is Pod {
  return pod !== undefined && pod.metadata.deletionTimestamp === undefined && isPodOf(pod, claim);
}

/** Makes of a question one whose callers share it ({@link createSharedCall}) where they ask about the same name. */
function sharedByName<T>(ask: (name: string) => Promise<T>): (name: string, signal: AbortSignal) => Promise<T> {
  const questions = new Map<string, { readonly ask: () => Promise<T>; callers: number }>();
  return async (name, signal) => {
    const question = questions.get(name) ?? { ask: createSharedCall((asks) => begin(name, asks)), callers: 0 };
    questions.set(name, question);
    question.callers += 1;
    try {
      return await orAborted(question.ask(), signal);
    } finally {
      question.callers -= 1;
      if (question.callers === 0) questions.delete(name);
    }
  };

  function begin(name: string, asks: () => void): Promise<T> {
    asks();
    return ask(name);
  }
}
