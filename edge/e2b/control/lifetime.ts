import * as v from "valibot";
import { claims } from "../../../crds/kinds.ts";
import { root } from "../../access/actor.ts";
import { expiryIn, extendClaim, secondsSchema } from "../../api/claims/expiry.ts";
import { changePresentClaim } from "../../api/claims/present-claim.ts";
import { releaseTenant } from "../../api/claims/release-tenant.ts";
import { readWorkload } from "../../api/workloads.ts";
import { untilFresh } from "../../cluster/freshness.ts";
import { HttpError } from "../../http/http-error.ts";
import { readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../../http/router.ts";
import { recordAnnotation } from "../sandbox-record.ts";
import { claimSandbox } from "./claim-sandbox.ts";
import type { ControlServices } from "./control-services.ts";
import { DEFAULT_SECONDS } from "./create.ts";
import { requireKeptFiles, requireSavable } from "./kept-files.ts";
import { notDone } from "./not-done.ts";
import { findSandbox, isMade, recordOf, requireRunning, sandboxAnswer } from "./sandbox.ts";
import { claimOne, sandboxKey, sandboxNotFound } from "./sandbox-access.ts";

const ONE = "/e2b/sandboxes/:sandbox";
/** What E2B adds without a number. */
const REFRESH_SECONDS = 60;
const MOST_SECONDS = 31_536_000;

const timeoutBody = v.strictObject({
  timeout: v.pipe(v.number(), v.integer("must be a whole number"), v.minValue(0), v.maxValue(MOST_SECONDS)),
});
const refreshBody = v.strictObject({ duration: v.nullish(secondsSchema("Seconds from now.")) });
const pauseBody = v.strictObject({ memory: v.nullish(v.boolean()) });
const connectBody = v.strictObject({
  timeout: v.nullish(secondsSchema("Seconds from now.")),
  memory: v.nullish(v.boolean()),
});
const resumeBody = v.strictObject({ ...connectBody.entries, autoPause: v.nullish(v.boolean()) });

/** `POST /sandboxes/{id}/timeout`, `…/refreshes`, `…/pause`, `…/connect` and `…/resume`. */
export function lifetimeRoutes(services: ControlServices): Route[] {
  return [
    {
      method: "POST",
      path: `${ONE}/timeout`,
      access: claimOne,
      async handle(request, { clientGone = request.signal }) {
        const { timeout } = await readJson(request, timeoutBody);
        await untilFresh([services.cache.claims], { clock: services.clock, signals: [clientGone] });
        await whileRunning(request, setTimeoutOf(request, timeout, services));
        return noContent();
      },
    },
    {
      method: "POST",
      path: `${ONE}/refreshes`,
      access: claimOne,
      async handle(request, { clientGone = request.signal }) {
        const { duration } = await readJson(request, refreshBody, { mayBeEmpty: true });
        await untilFresh([services.cache.claims], { clock: services.clock, signals: [clientGone] });
        const { claim } = await requireRunning(request, services, clientGone);
        const { uid } = claim.metadata;
        const seconds = duration ?? REFRESH_SECONDS;
        // One that does not expire needs no more time.
        if (claim.spec.expiresAt !== undefined)
          await whileRunning(request, extendClaim(sandboxKey(request), services, { seconds, uid }));
        return noContent();
      },
    },
    {
      method: "POST",
      path: `${ONE}/pause`,
      access: claimOne,
      async handle(request, context) {
        const { memory } = await readJson(request, pauseBody, { mayBeEmpty: true });
        refuseMemory(memory);
        await pause(request, context, services);
        return noContent();
      },
    },
    ...[`${ONE}/connect`, "/e2b/v2/sandboxes/:sandbox/connect"].map(
      (path): Route => ({
        method: "POST",
        path,
        access: claimOne,
        async handle(request, context) {
          const body = await readJson(request, connectBody, { mayBeEmpty: true });
          return await resume(request, context, { ...services, body });
        },
      }),
    ),
    {
      method: "POST",
      path: `${ONE}/resume`,
      access: claimOne,
      async handle(request, context) {
        const body = await readJson(request, resumeBody, { mayBeEmpty: true });
        return await resume(request, context, { ...services, body, isPausedOnly: true });
      },
    },
  ];
}

/** Moves the end of a sandbox, also to an earlier time, by the API server's clock. */
async function setTimeoutOf(request: RoutedRequest, seconds: number, services: ControlServices): Promise<void> {
  await changePresentClaim(sandboxKey(request), services, {
    uid: undefined,
    async change(claim) {
      const expiresAt = expiryIn(seconds, services);
      await services.cluster(claims).of(claim).patch({ spec: { expiresAt } });
    },
  });
}

/** @throws HttpError 404 for a sandbox that no longer runs */
async function whileRunning<T>(request: RoutedRequest, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isOver = error instanceof HttpError && (error.status === 404 || error.status === 409);
    throw isOver ? sandboxNotFound(request) : error;
  }
}

/**
 * Releases the claim of a sandbox and waits until its files are saved.
 *
 * @throws HttpError 404 for no sandbox; 409 for a paused one; 400 if its files would not be saved; as `releaseTenant`
 */
async function pause(
  request: RoutedRequest,
  { clientGone = request.signal, mayBeSilent, span }: RequestContext,
  services: ControlServices,
): Promise<void> {
  const key = sandboxKey(request);
  const found = await findSandbox(key, services, clientGone);
  if (found === undefined) throw sandboxNotFound(request);
  if (found.state === "paused") throw new HttpError(409, "the sandbox is paused");
  await requireSavable(found.claim, services);
  mayBeSilent?.();
  const { uid } = found.claim.metadata;
  const files = await releaseTenant(key, services, { wait: true, uid, clientGone: () => clientGone, span });
  if (files === "notSaved" || files === "discarded")
    throw new HttpError(500, `the files of the sandbox were ${files === "discarded" ? "discarded" : "lost"} before it`);
}

/**
 * Connects to a sandbox: a paused one gets an instance with its files, and the time of a running one is only extended.
 *
 * @param services.isPausedOnly whether a running sandbox is refused. @default false
 * @throws HttpError 404 for no sandbox; as `claimSandbox` does
 */
async function resume(
  request: RoutedRequest,
  { clientGone = request.signal, mayBeSilent, span }: RequestContext,
  {
    body,
    isPausedOnly = false,
    ...services
  }: ControlServices & {
    body: v.InferOutput<typeof resumeBody> | v.InferOutput<typeof connectBody>;
    isPausedOnly?: boolean;
  },
): Promise<Response> {
  const { actor = root } = request.caller ?? {};
  const key = sandboxKey(request);
  refuseMemory(body.memory);
  const found = await findSandbox(key, services, clientGone);
  if (found === undefined) throw sandboxNotFound(request);
  if (isPausedOnly && found.state === "running") throw new HttpError(409, "the sandbox is running");
  const record = recordOf(found);
  const asked = "autoPause" in body ? body.autoPause : undefined;
  const autoPause = asked ?? record?.autoPause ?? false;
  if (asked === true) requireKeptFiles(await readWorkload(key.workloadRef, services));
  mayBeSilent?.();
  const claim = {
    ...key,
    // The session that runs is meant as it is.
    ...{ resume: true, joins: true },
    expiresInSeconds: body.timeout ?? DEFAULT_SECONDS,
    annotations: recordAnnotation({ metadata: record?.metadata ?? {}, by: actor, autoPause, made: isMade(found) }),
  };
  const { instanceId, source } = await claimSandbox(claim, services, { clientGone: () => clientGone, span });
  request.audit?.about({ instance: instanceId });
  request.audit?.from(source);
  if (source === "existing" && instanceId !== undefined) services.activity.touch(instanceId);
  const status = found.state === "running" ? 200 : 201;
  return jsonResponse(await sandboxAnswer(key, actor, services), { status });
}

/** @throws HttpError 501 for what a caller expects to find in memory */
function refuseMemory(memory: boolean | null | undefined): void {
  if (memory === true) throw notDone("memory: true", "a pause keeps the files of a sandbox, and no memory");
}

function noContent(): Response {
  return new Response(null, { status: 204 });
}
