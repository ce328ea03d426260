import { createHash } from "node:crypto";
import type { Claim } from "../../crds/claim.ts";
import type { AskedCheckpoint } from "../../crds/claims/asked-checkpoint.ts";
import { isProgramRunning } from "../../crds/claims/claim-pod.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { CHECKPOINT_SECONDS } from "../../crds/defaults.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { type ConditionNow, nextConditions } from "../../crds/schema/condition.ts";
import { QuotaError } from "../../crds/snapshots/snapshot-store.ts";
import { withTimeLimit } from "../../crds/waits.ts";
import type { WorkState } from "../background-work.ts";
import type { ReconcileResult } from "../queue.ts";
import { hasStore } from "../snapshots/has-store.ts";
import type { SavedSnapshot } from "../snapshots/save-pod.ts";
import { answerCheckpoint, checkName, nameCheckpoint, nextAsked, whyFailed } from "./asked-checkpoint.ts";
import { CHECKPOINTED, otherConditions, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { soonest } from "./outcome.ts";
import { prepareCheckpoint, saveOf } from "./run-save.ts";
import { sessionOf } from "./session.ts";

const FIRST_RETRY_MS = 15_000;
/** An instance that is not used, and whose files have not changed, is looked at so many times less often. */
const UNUSED_TIMES = 10;
const MOST_REFUSED_TIMES = 12;
const DROP_LIMIT_MS = 20_000;

/** What is known of the checkpoints of a pod. */
export interface PodCheckpoints {
  readonly everyMs: number;
  /** The number of the last turn that is over. */
  turn: number;
  /** After a failure: when the next try is due, by the API server's clock, in milliseconds since the epoch. */
  retryAt: number | undefined;
  failures: number;
  /** Whether a quota has refused it: then it is not tried before `retryAt`. */
  isRefused: boolean;
  /** The last use of the instance before the last checkpoint, unless that found a change. */
  unchanged: { readonly use: string | undefined } | undefined;
  /** How many turns were left out since. */
  leftOut: number;
  /** What the checkpoint that runs was asked for. */
  asked: AskedCheckpoint | undefined;
  /** The last request that was answered: a status may say it otherwise, for example if its field is not known yet. */
  answered: string | undefined;
}

/**
 * Saves the files of an Active claim while its program runs, every `filesystem.checkpointSeconds`. Each pod has its own
 * turns, which begin at a part of that time after its binding, so that the checkpoints of many claims spread over it;
 * they need no write, and a new leader continues them.
 *
 * A checkpoint that fails is tried again, and its claim goes on: it says so in a condition and an Event. One that was
 * asked for is made at once, beside the turns, and only its own answer says whether it has failed.
 */
export async function keepCheckpoints(claim: Claim, pod: Pod, context: ClaimContext): Promise<ReconcileResult> {
  const { uid = "" } = pod.metadata;
  const keepsFiles = context.exec !== undefined && pod.metadata.annotations?.[annotation.overlayDirs] !== undefined;
  const everyMs = keepsFiles ? intervalMs(pod, context) : 0;
  const claimedAt = Date.parse(claim.status?.claimedAt ?? "");
  if (Number.isNaN(claimedAt)) return undefined;
  const now = context.serverNow();
  const sinceFirst = now - claimedAt - firstTurnMs(uid, everyMs);
  const turn = everyMs === 0 ? 0 : Math.floor(sinceFirst / everyMs);
  const before = context.podCheckpoints.get(uid);
  // Turns of another interval have other numbers.
  const { asked, answered } = before ?? {};
  const known = before?.everyMs === everyMs ? before : { ...begun(turn), everyMs, asked, answered };
  context.podCheckpoints.set(uid, known);

  const work = context.checkpoints.look(uid);
  if (work?.state === "running") return undefined;
  const present = work === undefined ? claim : await noteResult(claim, { uid, known, result: work, now }, context);
  const next = await nextAsked(present, { keepsFiles, context });
  // Files are read through its container, which an ended program takes along.
  if (!isProgramRunning(pod)) return undefined;
  if (next !== undefined && next.request !== known.answered) {
    known.asked = next;
    begin(claim, pod, { context, asked: next });
    return undefined;
  }
  if (everyMs === 0) return undefined;
  const isTurn = turn > known.turn && !known.isRefused;
  const { [annotation.lastActivity]: use, [annotation.idleTimeoutSeconds]: isRecorded } =
    pod.metadata.annotations ?? {};
  // Uses are recorded only where idleness ends a claim.
  const isUnused = isRecorded !== undefined && known.unchanged !== undefined && known.unchanged.use === use;
  known.turn = Math.max(known.turn, turn);
  if (isTurn && isUnused && known.leftOut < UNUSED_TIMES - 1) known.leftOut += 1;
  else if (isTurn || (known.retryAt !== undefined && known.retryAt <= now)) {
    known.unchanged = { use };
    [known.leftOut, known.retryAt, known.isRefused] = [0, undefined, false];
    begin(claim, pod, { context });
    return undefined;
  }
  const nextTurnMs = (turn + 1) * everyMs - sinceFirst;
  return soonest(nextTurnMs, known.retryAt === undefined ? undefined : known.retryAt - now);
}

/** @returns the claim with what was written to it */
async function noteResult(
  claim: Claim,
  given: {
    uid: string;
    known: PodCheckpoints;
    result: Exclude<WorkState<SavedSnapshot>, { state: "running" }>;
    now: number;
  },
  context: ClaimContext,
): Promise<Claim> {
  const { uid, known, result, now } = given;
  const { asked } = known;
  const answered = asked === undefined ? claim : await answerCheckpoint(claim, asked, { result, context });
  if (asked !== undefined) [known.asked, known.answered] = [undefined, asked.request];
  context.checkpoints.forget(uid);
  const isUnchanged = result.state === "done" && result.value.isUnchanged === true;
  if (!isUnchanged) known.unchanged = undefined;
  if (result.state === "done") {
    [known.failures, known.retryAt, known.isRefused] = [0, undefined, false];
    return await tell(answered, undefined, context);
  }
  if (asked !== undefined) {
    const { reason = "CheckpointFailed", message = whyFailed(result.error) } = answered.status?.checkpoint ?? {};
    context.claimEvents?.checkpointFailed(answered, { reason, message });
    return answered;
  }
  known.failures += 1;
  known.retryAt = now + retryMs(result.error, known);
  known.isRefused = result.error instanceof QuotaError;
  return await tell(answered, result.error, context);
}

function begun(turn: number): Omit<PodCheckpoints, "everyMs"> {
  return {
    turn,
    retryAt: undefined,
    failures: 0,
    isRefused: false,
    unchanged: undefined,
    leftOut: 0,
    asked: undefined,
    answered: undefined,
  };
}

/** 0 if the workload has no checkpoints. */
function intervalMs({ metadata: { labels } }: Pod, { config, informers }: ClaimContext): number {
  const name = labels?.[label.workload] ?? "";
  const workload = informers.workloads.store.get({ namespace: config.namespace, name });
  // The workload may be gone.
  return 1000 * (workload?.spec.filesystem?.checkpointSeconds ?? CHECKPOINT_SECONDS);
}

/** Between a half and the whole of the interval. */
function firstTurnMs(uid: string, everyMs: number): number {
  const part = createHash("sha256").update(uid).digest().readUInt32LE() / 2 ** 32;
  return everyMs * (0.5 + part / 2);
}

function retryMs(error: unknown, { everyMs, failures }: Pick<PodCheckpoints, "everyMs" | "failures">): number {
  // All files are sent to find out that there is no room.
  if (error instanceof QuotaError) return everyMs * Math.min(MOST_REFUSED_TIMES, 2 ** failures);
  return Math.min(everyMs, FIRST_RETRY_MS * 2 ** (failures - 1));
}

function begin(claim: Claim, pod: Pod, { context, asked }: { context: ClaimContext; asked?: AskedCheckpoint }): void {
  const { checkpoints, metrics, snapshots } = context;
  const { tenantId, workloadRef } = claim.spec;
  const { uid = "" } = pod.metadata;
  checkpoints.run(
    uid,
    async (signal, onBytes): Promise<SavedSnapshot> => {
      const key = { tenantId, workloadRef };
      const { name } = asked ?? {};
      if (name !== undefined) await checkName(key, { name, signal }, context);
      await prepareCheckpoint(claim, pod, context, signal);
      const saved = await metrics.timeSnapshot({ operation: "checkpoint", onBytes }, (counted) =>
        snapshots.save(key, pod, {
          ...saveOf(claim, pod, context),
          ...{ kind: "checkpoint", signal, onBytes: counted },
          onFrozen: (ms) => metrics.frozenSeconds.observe(ms / 1000),
        }),
      );
      if (name !== undefined) await nameCheckpoint(key, { name, sha256: saved.sha256, signal }, context);
      return saved;
    },
    () => context.enqueueClaim(claim),
    tenantId,
  );
}

/** Writes to the claim that its checkpoints fail, or fail no more. A success alone needs no write. */
async function tell(claim: Claim, error: unknown, context: ClaimContext): Promise<Claim> {
  const { name, generation } = claim.metadata;
  const before = claim.status?.conditions?.find(({ type }) => type === CHECKPOINTED);
  const write = async (now: ConditionNow): Promise<Claim> => {
    const conditions = [
      ...otherConditions(claim, CHECKPOINTED),
      ...nextConditions(before && [before], [now], { generation }),
    ];
    return await patchClaimStatus(claim, { phase: "Active", conditions }, context);
  };
  if (error === undefined) {
    if (before?.status !== "False") return claim;
    return await write({ type: CHECKPOINTED, status: "True", reason: "Saved", message: "the files are saved again" });
  }
  context.log.warn({ claim: name, error }, "checkpoint failed");
  const message = `the files could not be saved for a checkpoint: ${whyFailed(error)}. The session goes on, and it is tried again`;
  // Times and sizes in it would be news each time.
  const isTold = before?.status === "False" && withoutNumbers(before.message) === withoutNumbers(message);
  if (isTold) return claim;
  const reason = "CheckpointFailed";
  const written = await write({ type: CHECKPOINTED, status: "False", reason, message });
  context.claimEvents?.checkpointFailed(written, { reason, message });
  context.events.record({
    resource: claims,
    object: written,
    type: "Warning",
    reason,
    message: message.slice(0, 1000),
  });
  return written;
}

function withoutNumbers(message: string): string {
  return message.replace(/\d+/g, "");
}

/** Deletes the checkpoint of a session whose files are given up. If that fails, it stays as an older version. */
export function dropCheckpoint(claim: Claim, context: ClaimContext): void {
  const { checkpoints, log, snapshots } = context;
  const { tenantId, workloadRef } = claim.spec;
  if (!hasStore(context)) return;
  const session = sessionOf(claim);
  const ended = checkpoints.end(claim.status?.instanceUid ?? "");
  const limit = { what: "the deletion of a checkpoint", ms: DROP_LIMIT_MS, clock: systemClock };
  withTimeLimit(limit, async (signal) => {
    await ended;
    return await snapshots.dropCheckpoint({ tenantId, workloadRef }, { session, signal });
  }).catch((error: unknown) => log.warn({ tenantId, workloadRef, error }, "cannot delete the checkpoint of a session"));
}
