import type { Claim } from "../../crds/claim.ts";
import { isPodOf, isPodReady, podEndpoint } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { orAborted } from "../../crds/waits.ts";
import { createSharedCall } from "./shared-call.ts";

/** The current state of an Active claim's pod. */
export type LivePod =
  | {
      readonly state: "reachable";
      readonly endpoint: { readonly host: string; readonly port: number };
      readonly uid: string | undefined;
      /** Whether its health check passes; false while its container restarts. */
      readonly isReady: boolean;
    }
  /** Its sandbox is being recreated: it will get another address. */
  | { readonly state: "unreachable" }
  /** It does not exist, is being deleted, or belongs to another claim or tenant. */
  | { readonly state: "gone" }
  /** The claim itself is being deleted or gone: `present` is the object that now has its name. */
  | { readonly state: "released"; readonly present: Claim | undefined };

/**
 * Asks the API server for a claim's pod, and whether the claim still exists. An address from a cache or a status is
 * never returned to a client, since addresses are reused by other tenants' pods. A pod that is being released is not
 * returned, since its files may be saved already (docs/decisions/claims.md#an-address-is-asked-for-at-every-use).
 *
 * @param options.withClaim whether to read the claim too. @default true
 * @throws NetworkError, ApiError if the API server cannot be asked; the signal's reason when it is aborted
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

/** Makes a call that is shared by callers with the same name ({@link createSharedCall}). */
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
