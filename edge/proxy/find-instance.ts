import { type ClaimKey, canonicalClaim, claimKey } from "../../crds/claims/claim-key.ts";
import { isDestroyed } from "../../crds/claims/claim-pod.ts";
import { linkSignals, startDeadline, whenAborted } from "../../crds/waits.ts";
import type { ClaimServices } from "../api/claims/claim-services.ts";
import { waitsFor } from "../api/claims/claim-tenant.ts";
import { HttpError } from "../http/http-error.ts";
import { AnswerError, type LostPod } from "./forward.ts";
import { errorAnswer, type LocalAnswer } from "./http/local-answer.ts";
import type { AwakePod, FindAwake } from "./wake/find-awake.ts";
import { waitingPage } from "./wake/waiting-page.ts";
import type { Waking } from "./wake/waking.ts";

/** A request that needs its pod. */
export interface Wanted {
  readonly key: ClaimKey;
  /** Port of the workload, other than its first. */
  readonly port: number | undefined;
  /** Whether a person waits in a browser. */
  readonly showsPages: boolean;
  /** Whether the visitor may learn why an instance does not start: a claim's message can contain lines of its log. */
  readonly isInsider: boolean;
  /** Where E2B's SDKs name the instance, its id: they start a sandbox by the API, so a request does not wake it. */
  readonly sandbox: string | undefined;
}

/** Finds the pod of a request, and wakes it if there is none. */
export type FindInstance = (
  wanted: Wanted,
  gone: () => AbortSignal,
  lost: (LostPod & { readonly sinceMs: number }) | undefined,
) => AwakePod | Promise<AwakePod>;

/** How long a browser waits for its pod before it gets a page. */
const PAGE_MS = 1000;
/** How long an unreachable pod is retried: its program may not listen yet, or it is being replaced. */
const LOST_MS = 5000;
const PAUSE_MS = 100;
/** A pod that was woken may be released immediately by another caller. */
const MAX_WAKES = 3;
/** How long a sandbox that does not run is looked for: the API may have answered before this cache shows its claim. */
const LAG_MS = 2000;

/**
 * Returns a function that finds the pod of a request: immediately if it is awake, otherwise by a claim shared by all
 * waiting requests. A sandbox is not woken, only waited for while the caches may be behind.
 *
 * It throws an `AnswerError` with a 503 and the claim's reason if the pod cannot be woken, or with a page for a browser
 * that has waited a second; the error of `lost` if that pod was unreachable for five seconds.
 */
export function createFindInstance(options: {
  claims: Pick<ClaimServices, "cache" | "waiters" | "clock" | "waitLimitMs">;
  findAwake: FindAwake;
  waking: Waking;
}): FindInstance {
  const { findAwake, waking } = options;
  const { cache, waiters, clock, waitLimitMs } = options.claims;

  async function wake(wanted: Wanted, gone: AbortSignal): Promise<AwakePod> {
    for (let wakes = 1; wakes <= MAX_WAKES; wakes += 1) {
      try {
        await waking.wake(wanted.key, { gone, isInsider: wanted.isInsider });
      } catch (error) {
        gone.throwIfAborted();
        throw asAnswer(error, wanted);
      }
      const pod = findAwake(wanted.key, wanted.port);
      if (pod !== undefined) return pod;
    }
    throw new AnswerError(unavailable("the instance was released in the meantime; try again"));
  }

  /** Waits for a second, and then returns the page, which asks again. */
  async function wakeForPage(wanted: Wanted, gone: AbortSignal): Promise<AwakePod> {
    const limit = startDeadline(PAGE_MS, clock);
    const isLate = whenAborted([limit.signal]);
    const waits = linkSignals(gone);
    try {
      const found = await Promise.race([wake(wanted, waits.signal), isLate.promise]);
      if (found !== undefined) return found;
      const claim = canonicalClaim(cache.claims.store.by("key", claimKey(wanted.key)));
      throw new AnswerError(waitingPage(wanted.isInsider && claim !== undefined ? waitsFor(claim) : undefined));
    } finally {
      waits.abort();
      waits.close();
      limit.close();
      isLate.close();
    }
  }

  async function findAgain(
    wanted: Wanted,
    gone: AbortSignal,
    lost: LostPod & { readonly sinceMs: number },
  ): Promise<AwakePod> {
    if (clock.now() - lost.sinceMs >= LOST_MS) throw lost.error;
    const pause = startDeadline(PAUSE_MS, clock);
    try {
      await waiters.next(wanted.key, [gone, pause.signal]);
    } finally {
      pause.close();
    }
    gone.throwIfAborted();
    return findAwake(wanted.key, wanted.port) ?? wakeAs(wanted, gone);
  }

  /** Whether the claim says that its pod runs, or will. */
  function isStarting(key: ClaimKey): boolean {
    const claim = canonicalClaim(cache.claims.store.by("key", claimKey(key)));
    if (claim === undefined || claim.metadata.deletionTimestamp !== undefined || isDestroyed(claim)) return false;
    return [undefined, "Pending", "Active"].includes(claim.status?.phase);
  }

  async function untilRunning(wanted: Wanted, sandbox: string, gone: AbortSignal): Promise<AwakePod> {
    const since = clock.now();
    for (;;) {
      const pod = findAwake(wanted.key, wanted.port);
      if (pod !== undefined) return pod;
      const leftMs = since + (isStarting(wanted.key) ? waitLimitMs : LAG_MS) - clock.now();
      if (leftMs <= 0) throw new AnswerError(notRunning(sandbox));
      const limit = startDeadline(leftMs, clock);
      try {
        await waiters.next(wanted.key, [gone, limit.signal]);
      } finally {
        limit.close();
      }
      gone.throwIfAborted();
    }
  }

  function wakeAs(wanted: Wanted, gone: AbortSignal): Promise<AwakePod> {
    if (wanted.sandbox !== undefined) return untilRunning(wanted, wanted.sandbox, gone);
    return wanted.showsPages ? wakeForPage(wanted, gone) : wake(wanted, gone);
  }

  return (wanted, gone, lost) => {
    if (lost !== undefined) return findAgain(wanted, gone(), lost);
    return findAwake(wanted.key, wanted.port) ?? wakeAs(wanted, gone());
  };
}

/** The response to a visitor if a claim failed, or is not ready in time. */
function asAnswer(cause: unknown, { isInsider }: Wanted): AnswerError {
  const message =
    isInsider && cause instanceof HttpError ? cause.message : "the instance could not be started; try again later";
  return new AnswerError(unavailable(message), { cause });
}

/** As E2B's own proxy answers: its SDKs look for 502, those for Python also for "was not found". */
function notRunning(sandboxId: string): LocalAnswer {
  const body = JSON.stringify({ code: 502, message: "the sandbox was not found: it is not running", sandboxId });
  return { status: 502, contentType: "application/json", body };
}

function unavailable(message: string): LocalAnswer {
  return errorAnswer(503, message, [["Retry-After", "1"]]);
}
