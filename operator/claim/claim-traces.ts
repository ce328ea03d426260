import type { Claim } from "../../crds/claim.ts";
import { annotation } from "../../crds/labels.ts";
import { parseCarried, releaseTrace } from "../../crds/tracing/trace-context.ts";
import type { Attributes, Span, Tracer } from "../../crds/tracing/tracer.ts";
import { requestedMs, type Timeline, type TimelineStep } from "./timeline.ts";

/** The spans of claims' starts and releases. */
export interface ClaimTraces {
  /**
   * Records a finished start of a claim from its timeline: in the trace of the claim call, or in a trace of its own,
   * for example if a lost pod was replaced.
   *
   * @param start.attributes of the start and its steps
   * @param start.error why it failed
   */
  started(claim: Claim, start: { timeline: Timeline; attributes: Attributes; error?: string }): void;
  /** Notes the time at which this process took up the claim's release, at the first call. */
  releasing(claim: Claim): void;
  /** Begins a step of the release. */
  releaseStep(claim: Claim, name: string, attributes?: Attributes): Span;
  /** Notes the time at which the claim's pods were deleted, at the first call. */
  podsDeleted(claim: Claim): void;
  /**
   * Call the returned function when the release has ended. Get it before the last write: the watch may show the end
   * before that write is answered, and the notes are dropped then. If a watch is behind, the end is seen more than
   * once; only the first is recorded.
   */
  release(claim: Claim): () => void;
  /** Drops the notes about a claim. */
  forget(uid: string): void;
}

/** Creates the traces of one term of leadership. */
export function createClaimTraces(tracer: Tracer, now: () => number): ClaimTraces {
  /** When this process took up each release, and deleted its pods, by the claim's uid. */
  const releases = new Map<string, { readonly startMs: number; deletedMs?: number; isRecorded?: boolean }>();

  function beginRelease(claim: Claim): Span {
    const { metadata } = claim;
    const asked = carriedBy(claim);
    return tracer.start("release claim", {
      ids: releaseTrace(metadata.uid ?? ""),
      startMs: releases.get(metadata.uid ?? "")?.startMs ?? Date.parse(metadata.deletionTimestamp ?? ""),
      attributes: { ...claimAttributes(claim), "k8s.pod.name": claim.status?.instanceId },
      links: asked === undefined ? [] : [asked],
    });
  }

  return {
    started(claim, { timeline, attributes, error }) {
      const [first, ...steps] = timeline.filter(({ step }) => step !== "Requested");
      if (first === undefined) return;
      const asked = carriedBy(claim);
      const isAsked = requestedMs(claim) !== undefined;
      const span = tracer.start("start claim", {
        parent: isAsked ? asked : undefined,
        kind: "consumer",
        attributes: { ...claimAttributes(claim), ...attributes },
        links: isAsked || asked === undefined ? [] : [asked],
        startMs: Date.parse(first.at),
      });
      let fromMs = Date.parse(first.at);
      for (const { step, at } of steps) {
        const toMs = Date.parse(at);
        const name = stepName(step, attributes);
        if (name !== undefined) span.child(name, { attributes, startMs: fromMs }).end({ endMs: toMs });
        fromMs = toMs;
      }
      const endMs = now();
      if (error === undefined) span.child("activate", { attributes, startMs: fromMs }).end({ endMs });
      span.end({ endMs, ...(error !== undefined && { error }) });
    },
    releasing({ metadata: { uid = "" } }) {
      if (!releases.has(uid)) releases.set(uid, { startMs: now() });
    },
    releaseStep: (claim, name, attributes = {}) => beginRelease(claim).child(name, { attributes }),
    podsDeleted({ metadata: { uid = "" } }) {
      const release = releases.get(uid);
      if (release !== undefined) release.deletedMs ??= now();
    },
    release(claim) {
      const span = beginRelease(claim);
      const release = releases.get(claim.metadata.uid ?? "");
      const startMs = release?.deletedMs;
      return () => {
        if (release?.isRecorded === true) return;
        if (release !== undefined) release.isRecorded = true;
        const endMs = now();
        if (startMs !== undefined) span.child("delete pod", { startMs }).end({ endMs });
        span.end({ endMs });
      };
    },
    forget: (uid) => void releases.delete(uid),
  };
}

/** The name of the span that ends with a step; undefined if the next step's span covers it. */
function stepName(step: TimelineStep, attributes: Attributes): string | undefined {
  switch (step) {
    case "Bound":
      return String(attributes["tenancy.claim.source"]).startsWith("pool") ? "bind warm pod" : "create pod";
    case "Scheduled":
      return "schedule pod";
    case "Started":
      return "start containers";
    case "FilesTo":
      return "restore files";
    case "Ready":
      return "wait until ready";
    case "InputsGiven":
      return "give inputs";
    case "ProgramStarted":
      return "start program";
    case "OnClaimCalled":
      return "call onClaim";
    case "Requested":
    case "Seen":
    case "FilesFrom":
    case "Active":
    case "Error":
      return undefined;
    default:
      return step satisfies never;
  }
}

function carriedBy({ metadata }: Claim) {
  return parseCarried(metadata.annotations?.[annotation.traceparent]);
}

function claimAttributes({ metadata, spec }: Claim): Attributes {
  return {
    "k8s.namespace.name": metadata.namespace,
    "tenancy.claim.name": metadata.name,
    "tenancy.tenant": spec.tenantId,
    "tenancy.workload": spec.workloadRef,
  };
}
