import type { Claim, ClaimSpec } from "../../../crds/claim.ts";
import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import { differingLabels } from "../../../crds/claims/claim-labels.ts";
import { isDestroyed } from "../../../crds/claims/claim-pod.ts";
import { type ClaimResponse, claimResponse } from "../../../crds/claims/claim-response.ts";
import { ApiError, isConflict, isNotFound, isTransient } from "../../../crds/client/api-error.ts";
import { withDefaults } from "../../../crds/defaults.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import { formatTraceparent } from "../../../crds/tracing/trace-context.ts";
import { inSpan, type Span } from "../../../crds/tracing/tracer.ts";
import { startDeadline, withTimeLimit } from "../../../crds/waits.ts";
import { requireFresh, untilFresh } from "../../cluster/freshness.ts";
import { phaseOf } from "../../cluster/watch-cluster.ts";
import { HttpError } from "../../http/http-error.ts";
import { type CallInputs, createClaimSecret, differingFromCall } from "./claim-secrets.ts";
import type { ClaimServices } from "./claim-services.ts";
import { type ClaimSpans, createClaimSpans } from "./claim-spans.ts";
import { attemptKey, claimError, claimStep } from "./claim-step.ts";
import { createClaim } from "./create-claim.ts";
import { expiresBefore, expiryIn } from "./expiry.ts";

/** A claim call: the tenant, the workload, and whether to restore saved data. */
export interface ClaimRequest extends ClaimKey {
  readonly resume: boolean;
  /** A version of the data: its SHA-256 or the first 16 digits. */
  readonly version?: string | undefined;
  /** Seconds until the claim is released, even while it is in use. @default never */
  readonly expiresInSeconds?: number | undefined;
  /** That a new pod should run in. @default that of the claim that exists, or any */
  readonly zone?: string | undefined;
  /** Of the pod. @default those of the claim that exists, or none */
  readonly labels?: ClaimSpec["labels"] | undefined;
  /** What the program gets when it starts. @default what the claim that exists has, or nothing */
  readonly inputs?: CallInputs | undefined;
  /** Of the claim object, if this call creates it. @default none */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** Whether to join an existing session as it is: without the data, or with other labels or inputs. @default false */
  readonly joins?: boolean | undefined;
}

/** A claim call whose expiry is a time. */
interface TimedRequest extends ClaimRequest {
  readonly expiresAt: string | undefined;
}

/** Response 409: someone released the claim while the call waited. */
export class ReleasedMeanwhile extends HttpError {
  constructor() {
    super(409, "the claim was released while this call waited; claim again to start a new session");
  }
}

/**
 * Claims a workload for a tenant and waits until the claim is Active.
 *
 * A loop: read the cached claims, take one step ({@link claimStep}), wait for the next change, until the step is an
 * answer. The endpoint in the response is read from the API server ({@link FindLivePod}); a pod that is not ready is
 * waited for, and a destroyed pod is replaced. The claim stays when the limit passes or the client disconnects.
 *
 * @param options.clientGone ends the wait, not the claim
 * @param options.asks whether to read the pod even if this call was just given a warm pod, which was ready when it was
 * bound. @default never
 * @param options.span of the caller, if traced
 * @throws HttpError 404 without the workload; 400 if its program cannot get inputs; 409 if the claim is Active without
 * the requested files, or has other labels or inputs; {@link ReleasedMeanwhile}; as {@link claimError} if the claim
 * fails; 429 as {@link TenantQuotaCheck} does; 503 while the cache is stale, or if the pod cannot be read; 504 after the
 * limit
 */
export async function claimTenant(
  request: ClaimRequest,
  services: ClaimServices,
  options: { clientGone: () => AbortSignal | undefined; asks?: (claim: Claim) => boolean; span?: Span | undefined },
): Promise<ClaimResponse> {
  const { asks = () => false } = options;
  const clientGone = options.clientGone();
  const deadline = startDeadline(services.waitLimitMs, services.clock);
  const spans = options.span && createClaimSpans(options.span, request);
  let ended: (() => void) | undefined;
  // Once a call: what it has begun it may finish.
  const admit = () => {
    if (ended !== undefined) return;
    services.quota?.check(request);
    ended = services.admission?.begin(request);
  };
  try {
    await untilFresh([services.cache.claims], { clock: services.clock, signals: [deadline.signal, clientGone] });
    const { expiresInSeconds } = request;
    // The API server's time is known by now.
    const expiresAt = expiresInSeconds === undefined ? undefined : expiryIn(expiresInSeconds, services);
    const timed = { ...request, expiresAt };
    const claim = await waitForClaim(timed, services, { limit: deadline.signal, clientGone, admit, asks, spans });
    spans?.end({ claim });
    return claim;
  } catch (error) {
    spans?.end({ error });
    // The limit aborts the request in progress.
    if (deadline.signal.aborted && !(error instanceof HttpError)) throw tooLate(request, services);
    throw error;
  } finally {
    // What a caller that has left has begun takes its time all the same.
    if (ended !== undefined && clientGone?.aborted) void untilStarted(request, services).finally(ended);
    else ended?.();
    deadline.close();
  }
}

/** Waits until no claim of the key is being started, for as long as a claim call waits. */
async function untilStarted(key: ClaimKey, { cache, waiters, clock, waitLimitMs }: ClaimServices): Promise<void> {
  const deadline = startDeadline(waitLimitMs, clock);
  const isStarting = () =>
    [...cache.claims.store.by("key", claimKey(key))].some((claim) => phaseOf(claim) === "Pending");
  while (isStarting() && !deadline.signal.aborted) await waiters.next(key, [deadline.signal]);
  deadline.close();
}

/** The watch of claims may be ahead of the watch of pods. */
const LOOK_AGAIN_MS = 1000;
/** No change of the claim reports that its program answers again. */
const STARTS_AGAIN_MS = 250;
/** After these reads the watch of pods reports the change too, and each read costs two requests. */
const SOON_LOOKS = 8;
/** Within this time after an attempt, the address of its warm pod cannot belong to another pod. */
const FRESH_MS = 2000;

/**
 * Whether an Active claim has the files that a call requests; undefined if only the snapshots volume knows whether
 * there are any.
 *
 * A session that requested its files has them. A session that did not request them may have none.
 */
function isAsAsked({ status }: Claim, request: ClaimRequest, { cache, namespace }: ClaimServices): boolean | undefined {
  if (!request.resume || request.joins === true) return true;
  const { source, resumedFrom, restoredFrom } = status ?? {};
  if (request.version !== undefined) return resumedFrom?.startsWith(request.version) === true;
  // A claim that an older operator made Active does not name its archive; a checkpoint is of the session itself.
  const isGiven = resumedFrom ?? (restoredFrom === undefined && source?.endsWith("+data"));
  if (isGiven !== undefined && isGiven !== false) return true;
  const workload = cache.workloads.store.get({ namespace, name: request.workloadRef });
  const keepsNothing = workload !== undefined && withDefaults(workload.spec).filesystem.overlayDirs.length === 0;
  return keepsNothing ? true : undefined;
}

/** @throws HttpError 409 if the tenant has saved files that the Active claim was not given */
async function refuseWithoutFiles(
  claim: Claim,
  request: ClaimRequest,
  services: ClaimServices,
  clientGone: AbortSignal | undefined,
): Promise<void> {
  const { tenantId, workloadRef, version } = request;
  if (version === undefined) {
    if (services.hasArchive === undefined)
      throw new Error("Cannot check for an archive of the tenant: no hasArchive was given");
    if (!(await services.hasArchive(request, clientGone))) return;
  }
  const what = version === undefined ? "the saved files" : `version ${version} of the files`;
  const message = `tenant ${quote(tenantId)} is using workload ${quote(workloadRef)} without ${what}: release it with POST /api/v1/tenants/${tenantId}/release?wait=true and claim again, or claim without resume to continue without them; the saved files stay as an older version when ${claim.metadata.name} is released`;
  throw new HttpError(409, message);
}

/** @throws HttpError 409 if the claim has other labels; it names the keys, and no values */
function refuseOtherLabels({ spec }: Claim, request: ClaimRequest): void {
  if (request.labels === undefined) return;
  refuseOther(request, { what: "labels", names: differingLabels(spec.labels, request.labels) });
}

/** @throws HttpError 409 if the claim has other inputs; it names them, and no values */
async function refuseOtherInputs(claim: Claim, request: ClaimRequest, services: ClaimServices): Promise<void> {
  const names = await differingFromCall(claim, request.inputs ?? {}, services);
  refuseOther(request, { what: "inputs", names, fields: "env, secrets and files" });
}

/** A message with more names than this is cut. */
const MOST_NAMES = 20;

function refuseOther(
  { tenantId, workloadRef }: ClaimRequest,
  { what, names, fields = what }: { what: string; names: readonly string[]; fields?: string },
): void {
  if (names.length === 0) return;
  const hidden = names.length - MOST_NAMES;
  const shown = names.slice(0, MOST_NAMES).map(quote).join(", ") + (hidden > 0 ? ` and ${hidden} more` : "");
  throw new HttpError(
    409,
    `tenant ${quote(tenantId)} has a claim on workload ${quote(workloadRef)} with other ${what} (different: ${shown}): claim without ${fields} to join it, or release it first`,
  );
}

/** What the answer says if the claim expires later than the call asked for, or never. */
function keptExpiry({ spec, status }: Claim, { expiresAt }: TimedRequest): Pick<ClaimResponse, "message"> {
  if (expiresAt === undefined || spec.expiresAt === expiresAt) return {};
  const kept =
    spec.expiresAt === undefined
      ? "the claim exists and does not expire: it keeps running until it is released"
      : `the claim keeps its later expiry, ${spec.expiresAt}`;
  return { message: status?.message === undefined ? kept : `${status.message}; ${kept}` };
}

async function waitForClaim(
  request: TimedRequest,
  services: ClaimServices,
  ends: {
    limit: AbortSignal;
    clientGone: AbortSignal | undefined;
    admit: () => void;
    asks: (claim: Claim) => boolean;
    spans: ClaimSpans | undefined;
  },
): Promise<ClaimResponse> {
  const { cache, clock, waiters, findLivePod } = services;
  const { limit, clientGone, admit, asks, spans } = ends;
  const lastLook = { what: "the last look for the pod", ms: LOOK_AGAIN_MS, clock };
  const shared = new Set<string>();
  /** The uids of the claims that have the inputs which this call brings. */
  const asGiven = new Set<string | undefined>();
  /** When this call made each attempt: every change of the attempt that the watch shows happened later. */
  const madeAt = new Map<string, number>();
  // The uid of the claim that this call waits on. Its release ends the call; the release of an earlier claim is waited
  // for.
  let awaited: string | undefined;
  // Responses of the API server since the last wait: conflicts with other writers must not make this loop spin.
  let answers = 0;
  let unready = 0;

  for (;;) {
    const found = cache.claims.store.by("key", claimKey(request));
    if (awaited !== undefined && isReleased(awaited, found)) throw new ReleasedMeanwhile();
    const step = claimStep(found, shared);
    if (clientGone?.aborted) throw new HttpError(499, "the client went away");
    if (step.kind !== "create" && step.kind !== "fail" && step.claim.metadata.deletionTimestamp === undefined) {
      const { inputs, joins = false } = request;
      if (!joins) refuseOtherLabels(step.claim, request);
      if (!joins && inputs !== undefined && !asGiven.has(step.claim.metadata.uid)) {
        // The cache keeps no inputs.
        const claim = await services.cluster(claims).of(step.claim).find({ signal: limit });
        const isSame = claim?.metadata.uid === step.claim.metadata.uid;
        if (claim === undefined || !isSame || claim.metadata.deletionTimestamp !== undefined) await take(claim);
        else {
          await refuseOtherInputs(claim, request, services);
          // The call that created the claim may have been cut off before it created its Secret.
          if (phaseOf(claim) !== "Active") await giveSecrets(claim, inputs);
          asGiven.add(claim.metadata.uid);
        }
        continue;
      }
      // Events do not keep a claim that fails: after its end, the next one gets the trigger's present inputs.
      const mayExtend = !joins || step.kind === "answer";
      if (request.expiresAt !== undefined && mayExtend && expiresBefore(step.claim, request.expiresAt)) {
        await take(await extend(step.claim, request.expiresAt));
        continue;
      }
    }
    if (step.kind === "answer" && isJustBound(step.claim) && isAsAsked(step.claim, request, services)) {
      if (!asks(step.claim)) return claimResponse(step.claim);
    }
    if (step.kind === "fail") {
      const { reason, message = "" } = step.claim.status ?? {};
      if (reason === "TenantStartsExceeded") services.quota?.noteRefusal(request, message);
      throw claimError(step.claim, request);
    }
    // A claim that becomes Active at the limit is still returned.
    if (limit.aborted && step.kind !== "answer") throw tooLate(request, services);

    switch (step.kind) {
      case "answer": {
        const { claim } = step;
        const pod = limit.aborted
          ? await withTimeLimit(lastLook, (last) => findLivePod(claim, last))
          : await findLivePod(claim, limit);
        if (pod.state === "reachable" && pod.isReady) {
          if (isAsAsked(claim, request, services) !== true)
            await refuseWithoutFiles(claim, request, services, clientGone);
          const answer: ClaimResponse = {
            ...claimResponse(claim),
            endpoint: pod.endpoint,
            ...keptExpiry(claim, request),
          };
          return shared.has(attemptKey(claim)) ? answer : { ...answer, source: "existing" };
        }
        if (limit.aborted) throw tooLate(request, services);
        if (pod.state === "released") {
          await take(pod.present);
          break;
        }
        if (pod.state === "gone" && isDestroyed(claim)) {
          await tryAnew(claim);
          break;
        }
        awaited = claim.metadata.uid;
        answers = 0;
        const isSoon = pod.state === "reachable" && ++unready <= SOON_LOOKS;
        await pause(isSoon ? STARTS_AGAIN_MS : LOOK_AGAIN_MS, [limit, clientGone]);
        break;
      }
      case "wait":
        join(step.claim);
        spans?.waitOn(step.claim);
        answers = 0;
        await waiters.next(request, [limit, clientGone]);
        break;
      case "create": {
        admit();
        const span = spans?.write("create claim");
        const made = await inSpan(span, () => createClaim(request, services, { signal: limit, span }));
        if (made?.created) {
          begin(made.claim);
          asGiven.add(made.claim.metadata.uid);
        }
        await take(made?.claim);
        break;
      }
      case "revive":
        await tryAnew(step.claim);
        break;
      default:
        return step satisfies never;
    }
  }

  function join(claim: Claim): void {
    shared.add(attemptKey(claim));
    if (claim.metadata.deletionTimestamp === undefined) awaited = claim.metadata.uid;
  }

  function begin(claim: Claim): void {
    join(claim);
    madeAt.set(attemptKey(claim), clock.now());
  }

  /**
   * Stores the claim that the API server returned. Undefined if there is none, or if a write lost a conflict whose
   * cause the watch has yet to show.
   */
  async function take(claim: Claim | undefined): Promise<void> {
    if (claim !== undefined) cache.claims.put(claim);
    answers += 1;
    if (claim === undefined || answers > 2) await pause(Math.min(20 * 2 ** answers, 1000), [limit, clientGone]);
  }

  function pause(ms: number, signals: readonly (AbortSignal | undefined)[]): Promise<void> {
    const pause = startDeadline(ms, clock);
    return waiters.next(request, [...signals, pause.signal]).finally(pause.close);
  }

  /** Whether the operator bound a warm pod for this call a moment ago, and wrote its address then. */
  function isJustBound(claim: Claim): boolean {
    const { source, endpoint } = claim.status ?? {};
    const ageMs = clock.now() - (madeAt.get(attemptKey(claim)) ?? Number.NEGATIVE_INFINITY);
    return source === "pool" && endpoint !== undefined && !isDestroyed(claim) && ageMs >= 0 && ageMs < FRESH_MS;
  }

  async function giveSecrets(claim: Claim, inputs: CallInputs): Promise<void> {
    try {
      await createClaimSecret(claim, inputs, { ...services, signal: limit });
    } catch (error) {
      // A quota is asked before the API server sees that the Secret exists. The operator says if it does not.
      if (!(error instanceof ApiError) || isTransient(error)) throw error;
    }
  }

  async function tryAnew(claim: Claim): Promise<void> {
    admit();
    const span = spans?.write("revive claim");
    const revived = await inSpan(span, () => revive(claim, span));
    if (revived !== undefined) begin(revived);
    await take(revived);
  }

  async function extend(claim: Claim, expiresAt: string): Promise<Claim | undefined> {
    try {
      return await services.cluster(claims).of(claim).patch({ spec: { expiresAt } }, { signal: limit });
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return undefined;
      throw error;
    }
  }

  async function revive(claim: Claim, span: Span | undefined): Promise<Claim | undefined> {
    // What an earlier call left there is not of this attempt.
    const isTraced = span !== undefined || claim.metadata.annotations?.[annotation.traceparent] !== undefined;
    const annotations = {
      [annotation.attempt]: services.randomId(),
      [annotation.requestedAt]: new Date(clock.now()).toISOString(),
      ...(isTraced && { [annotation.traceparent]: span === undefined ? null : formatTraceparent(span.context) }),
    };
    const { resume, version = null, zone } = request;
    const isNamed = version !== null || claim.spec.resumeVersion !== undefined;
    const spec = { resume, ...(isNamed && { resumeVersion: version }), ...(zone !== undefined && { zone }) };
    const patch = () =>
      services.cluster(claims).of(claim).patch({ metadata: { annotations }, spec }, { signal: limit });
    try {
      return await (services.admission?.write(patch) ?? patch());
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return undefined;
      throw error;
    }
  }
}

function isReleased(uid: string, claims: Iterable<Claim>): boolean {
  for (const { metadata } of claims) if (metadata.uid === uid) return metadata.deletionTimestamp !== undefined;
  return true;
}

function tooLate(key: ClaimKey, { cache, waitLimitMs }: ClaimServices): HttpError {
  requireFresh(cache.claims);
  const { tenantId, workloadRef } = key;
  const seconds = waitLimitMs / 1000;
  const [claim] = cache.claims.store.by("key", claimKey(key));
  const why = claim === undefined ? undefined : waitsFor(claim);
  return new HttpError(
    504,
    `workload "${workloadRef}" is not ready for tenant "${tenantId}" after ${seconds} s${why === undefined ? "" : ` (${why})`}; the claim continues: call again to keep waiting`,
    { expected: true },
  );
}

/** What a claim is waiting for, if known. */
export function waitsFor({ metadata, status }: Claim): string | undefined {
  if (metadata.deletionTimestamp !== undefined) {
    const more = status?.message === undefined ? "" : `: ${status.message}`;
    return `its last session is still being released${more}`;
  }
  if (status?.phase === "Active" && status.message === undefined)
    return "its program does not pass its health check, or has no address at the moment";
  const isLookedAt = status?.observedGeneration !== undefined;
  return (
    status?.message ?? (isLookedAt ? undefined : "no operator has reported on the claim: check that one is running")
  );
}
