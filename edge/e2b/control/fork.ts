import * as v from "valibot";
import type { Claim } from "../../../crds/claim.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { claims } from "../../../crds/kinds.ts";
import { root } from "../../access/actor.ts";
import { makeCheckpoint } from "../../api/claims/checkpoint.ts";
import { secondsSchema } from "../../api/claims/expiry.ts";
import { readJson } from "../../http/read-json.ts";
import { errorAnswer, jsonResponse } from "../../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../../http/router.ts";
import { recordAnnotation, sandboxRecord } from "../sandbox-record.ts";
import type { ControlServices } from "./control-services.ts";
import { copyToSandbox, DEFAULT_SECONDS, startSandbox } from "./create.ts";
import { requireSavable } from "./kept-files.ts";
import { newTenants } from "./new-tenant.ts";
import { notDone } from "./not-done.ts";
import { requireRunning } from "./sandbox.ts";
import { sandboxKey, sandboxNotFound, useOne } from "./sandbox-access.ts";

const MOST_FORKS = 16;

const body = v.strictObject({
  count: v.nullish(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MOST_FORKS, `must be at most ${MOST_FORKS}`),
    ),
  ),
  timeout: v.nullish(secondsSchema("Seconds until the forks end.")),
});

/** `POST /sandboxes/{id}/fork`. */
export function forkRoute(services: ControlServices): Route {
  return {
    method: "POST",
    path: "/e2b/sandboxes/:sandbox/fork",
    access: useOne,
    async handle(request, context) {
      const { count, timeout } = await readJson(request, body, { mayBeEmpty: true });
      context.mayBeSilent?.();
      const forks = await fork(
        { count: count ?? 1, seconds: timeout ?? DEFAULT_SECONDS },
        { request, context, services },
      );
      return jsonResponse(forks, { status: 201 });
    },
  };
}

interface Forking {
  readonly request: RoutedRequest;
  readonly context: RequestContext;
  readonly services: ControlServices;
}

/**
 * Saves a running sandbox, and starts new ones with copies of its files and with its variables. Each has a result of
 * its own.
 *
 * @throws HttpError before the first one is made
 */
async function fork(
  { count, seconds }: { count: number; seconds: number },
  { request, context, services }: Forking,
): Promise<object[]> {
  const { actor = root } = request.caller ?? {};
  const key = sandboxKey(request);
  const clientGone = context.clientGone ?? request.signal;
  const tenants = newTenants(actor, count);
  const { claim } = await requireRunning(request, services, clientGone);
  await requireSavable(claim, services);
  // The cache keeps no inputs.
  const present = await services.cluster(claims).of(claim).find();
  if (present === undefined || present.metadata.uid !== claim.metadata.uid) throw sandboxNotFound(request);
  const inputs = inputsOf(present);
  const { metadata = {}, autoPause = false } = sandboxRecord(present) ?? {};
  const annotations = recordAnnotation({ metadata, by: actor, autoPause, made: true });
  const version = await makeCheckpoint(key, services, { name: undefined, uid: claim.metadata.uid, clientGone });

  async function start(tenantId: string): Promise<object> {
    const to: ClaimKey = { tenantId, workloadRef: key.workloadRef };
    try {
      await copyToSandbox(key, { tenantId, made: true, annotations, version }, services);
      const wanted = { ...to, resume: true, expiresInSeconds: seconds, annotations, inputs };
      return { sandbox: await startSandbox(wanted, { made: true }, { request, context, services }) };
    } catch (error) {
      const { status, message } = errorAnswer(error, {
        requestId: `fork of ${claim.metadata.name}`,
        log: services.log,
      });
      return { error: { code: status, message } };
    }
  }

  return await Promise.all(tenants.map(start));
}

/** What the forks get too. @throws HttpError 501 for inputs that only the claim itself may read */
function inputsOf({ spec }: Claim): { env: Record<string, string> } | undefined {
  const { env = {}, files = [], secretRef } = spec.inputs ?? {};
  if (secretRef !== undefined || files.length > 0) {
    const why = "the claim has secrets or files of its own, which a fork would not get";
    throw notDone("fork of this sandbox", why);
  }
  return Object.keys(env).length === 0 ? undefined : { env };
}
