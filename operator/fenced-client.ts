import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { Term } from "./leader.ts";

/** A write that was not sent, because this process leads no longer. */
export class NotLeadingError extends Error {
  override readonly name = "NotLeadingError";
}

/** A client whose writes are sent only while the term allows, and are given up when it could have ended. */
export function fencedClient(client: ClusterClient, term: Term): ClusterClient {
  function limit(timeoutMs = Number.POSITIVE_INFINITY): number {
    const timeLeftMs = term.writeTimeLeftMs();
    if (timeLeftMs <= 0) throw new NotLeadingError("Cannot write: this operator does not lead");
    return Math.min(timeoutMs, timeLeftMs);
  }
  return {
    ...client,
    create: async (resource, object, options) =>
      client.create(resource, object, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    replace: async (resource, object, options) =>
      client.replace(resource, object, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    patch: async (resource, reference, options) =>
      client.patch(resource, reference, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    apply: async (resource, object, options) =>
      client.apply(resource, object, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    delete: async (resource, reference, options) =>
      client.delete(resource, reference, { ...options, timeoutMs: limit(options?.timeoutMs) }),
  };
}
