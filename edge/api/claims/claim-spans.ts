import type { Claim } from "../../../crds/claim.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { annotation } from "../../../crds/labels.ts";
import { parseCarried } from "../../../crds/tracing/trace-context.ts";
import type { Attributes, Span } from "../../../crds/tracing/tracer.ts";

/** The spans of one claim call. */
export interface ClaimSpans {
  /** Starts the span of a write that requests a pod from the operator. */
  write(name: "create claim" | "revive claim"): Span;
  /** Records that the call now waits for the operator. */
  waitOn(claim: Claim): void;
  /** Ends the wait and records the result of the call. */
  end(result: { claim: ClaimResponse } | { error: unknown }): void;
}

/** @param span of the claiming request or event */
export function createClaimSpans(span: Span, key: ClaimKey): ClaimSpans {
  let waiting: Span | undefined;
  span.set(claimAttributes(key));
  return {
    write(name) {
      waiting?.end();
      waiting = undefined;
      return span.child(name, { kind: "producer", attributes: claimAttributes(key) });
    },
    waitOn({ metadata: { annotations } }) {
      if (waiting !== undefined) return;
      // Another call may have created the claim in its own trace.
      const asked = parseCarried(annotations?.[annotation.traceparent]);
      const isOther = asked !== undefined && asked.traceId !== span.context.traceId;
      waiting = span.child("wait until Active", { links: isOther ? [asked] : [] });
    },
    end(result) {
      if ("error" in result) {
        waiting?.end(result);
        return;
      }
      const { source, instanceId } = result.claim;
      waiting?.end();
      span.set({ "tenancy.claim.source": source, "k8s.pod.name": instanceId });
    },
  };
}

/** Span attributes of a claim. */
export function claimAttributes({ tenantId, workloadRef }: ClaimKey): Attributes {
  return { "tenancy.tenant": tenantId, "tenancy.workload": workloadRef };
}
