import type { NetworkPolicy } from "../../crds/kubernetes.ts";

const LIMIT_MS = 20_000;

/**
 * Applies a network policy by server-side apply. The client is loaded at the first call, since that takes half a second and
 * tens of megabytes that an operator which has nothing to apply can do without.
 *
 * @throws Error when the API server refuses it, or has not answered within 20 s
 */
export async function applyNetworkPolicy(policy: NetworkPolicy): Promise<void> {
  const { K8s, kind } = await import("kubernetes-fluent-client");
  const limit = AbortSignal.timeout(LIMIT_MS);
  const timedOut = new Promise<never>((_, reject) => {
    limit.addEventListener("abort", () => reject(new Error(`no answer in ${LIMIT_MS / 1000} s`)), { once: true });
  });
  try {
    const { apiVersion, metadata } = policy;
    // A field that is left out stays as somebody else has set it: an open `egress` under access `none`, for one.
    const spec = { ingress: [], egress: [], ...policy.spec };
    await Promise.race([
      K8s(kind.NetworkPolicy).Apply({ apiVersion, metadata, spec } as never, { force: true }),
      timedOut,
    ]);
  } catch (error) {
    // The client throws plain objects: {ok, status, statusText, data}.
    const message = error instanceof Error ? error.message : JSON.stringify(error);
    throw new Error(`Cannot apply network policy ${policy.metadata.name}: ${message}`, { cause: error });
  }
}
