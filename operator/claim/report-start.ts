import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { explainStart } from "../pod/explain-start.ts";
import type { ReconcileResult } from "../queue.ts";
import { patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";

/** A start that takes no longer is not looked into: most are over by then. */
const FIRST_REPORT_MS = 5000;
const LONGEST_PAUSE_MS = 60_000;
/** After the pod's status has changed. */
const SHORTEST_PAUSE_MS = 2000;

/**
 * Says on a claim what its pod's start waits for, once that takes some seconds, and again in growing intervals while it
 * changes. The lookup runs in the background: the pod may become ready meanwhile.
 *
 * @param message what the pod's status says
 * @param startedAt by the API server, in milliseconds since the epoch
 */
export async function reportStart(
  claim: Claim,
  { pod, message, startedAt }: { pod: Pod; message: string; startedAt: number },
  context: ClaimContext,
): Promise<ReconcileResult> {
  const { work, last } = context.startExplanations;
  const { uid = "" } = pod.metadata;
  // What was said before a node took the pod holds no longer.
  if (claim.status?.reason === "Unschedulable") await report(claim, { reason: "Starting", message }, context);
  const before = last.get(uid);
  const pauseMs =
    before === undefined ? FIRST_REPORT_MS : before.message === message ? before.pauseMs : SHORTEST_PAUSE_MS;
  const leftMs = (before?.at ?? startedAt) + pauseMs - context.serverNow();
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  const lookup = work.run(
    uid,
    (signal) => explainStart({ pod, message, signal }, context),
    () => context.enqueueClaim(claim),
  );
  if (lookup.state === "running") return undefined;
  if (lookup.state === "failed") return { requeueAfterMs: lookup.retryInMs };
  const { reason, message: explained } = lookup.value;
  if (claim.status?.message !== explained) await report(claim, { reason, message: explained }, context);
  work.forget(uid);
  const nextMs = Math.min((before?.pauseMs ?? FIRST_REPORT_MS / 2) * 2, LONGEST_PAUSE_MS);
  last.set(uid, { explanation: lookup.value, message, at: context.serverNow(), pauseMs: nextMs });
  return { requeueAfterMs: nextMs };
}

/**
 * Says on a claim what it waits for, once that takes some seconds; the event that ends the wait starts the next run.
 *
 * @param since by the API server, in milliseconds since the epoch
 */
export async function reportWait(
  claim: Claim,
  { since, ...said }: { since: number; reason: string; message: string },
  context: ClaimContext,
): Promise<ReconcileResult> {
  const leftMs = since + FIRST_REPORT_MS - context.serverNow();
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  if (claim.status?.message !== said.message) await report(claim, said, context);
  return undefined;
}

function report(claim: Claim, said: { reason: string; message: string }, context: ClaimContext): Promise<Claim> {
  return patchClaimStatus(claim, { phase: "Pending", ...said }, context);
}
