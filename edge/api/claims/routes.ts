import * as v from "valibot";
import type { ClaimInputs } from "../../../crds/claims/claim-inputs.ts";
import {
  claimInputsSchema,
  inputProblems,
  secretProblems,
  secretVariablesSchema,
} from "../../../crds/claims/claim-inputs.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { labelProblems } from "../../../crds/claims/claim-labels.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { plainSchema } from "../../../crds/schema/schema.ts";
import { patternHints } from "../../../crds/schema/schema-problems.ts";
import { claimUse, namedUse } from "../../access/route-access.ts";
import type { Activity } from "../../activity.ts";
import { HttpError } from "../../http/http-error.ts";
import { pathParam, queryFlag, tenantIdRule } from "../../http/parameters.ts";
import { listed, readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import { type ApiRoute, bodySchema, flagSchema } from "../api-route.ts";
import { requestSchema } from "../openapi/request-schemas.ts";
import { doneSchema, schemas } from "../openapi/schemas.ts";
import { claimBodyFields, namesWorkload, workloadFields, workloadOf } from "./claim-body.ts";
import type { CallInputs } from "./claim-secrets.ts";
import type { ClaimServices } from "./claim-services.ts";
import { claimTenant } from "./claim-tenant.ts";
import { discardFiles } from "./discard.ts";
import { extendClaim, secondsSchema } from "./expiry.ts";
import { releaseTenant } from "./release-tenant.ts";

const resumeVersion = v.pipe(
  v.looseObject({
    version: v.pipe(v.string(), v.regex(new RegExp(pattern.archive), `must be ${patternHints[pattern.archive]}`)),
  }),
  v.check((given) => Object.keys(given).length === 1, "must have one key, version"),
);
const labels = v.pipe(
  // Checked by the rules of the CRD.
  v.custom<Record<string, string>>(() => true),
  v.metadata({
    ...schemas.ListedClaim.properties?.labels,
    propertyNames: { pattern: pattern.labelName },
    description:
      "Labels of the pod, where each key follows the prefix `claim.tenancy.dev/`; never for secrets. If the claim exists with others, the response is 409; without this, the call joins it.",
  }),
);
const { env = {}, files = {} } = plainSchema(claimInputsSchema).properties ?? {};
const inputs = { env, files, secrets: plainSchema(secretVariablesSchema) };
/** A part of what the program gets; checked by the rules of the CRD. */
function input<Name extends keyof typeof inputs>(name: Name) {
  return v.optional(
    v.pipe(
      v.custom<NonNullable<CallInputs[Name]>>(() => true),
      v.metadata({ ...requestSchema(inputs[name], `ClaimInputs.${name}`) }),
    ),
  );
}
const claimBody = v.strictObject({
  ...workloadFields,
  resume: v.optional(
    v.pipe(
      v.lazy((input) => (typeof input === "object" && input !== null ? resumeVersion : v.boolean())),
      v.metadata({
        oneOf: [{ type: "boolean" }, { ...bodySchema(resumeVersion), additionalProperties: false }],
        description:
          "Whether to restore the files of the last release, or which version: the SHA-256 of a snapshot, its first 16 digits, or its name. If the claim is Active without those files, the response is 409.",
      }),
    ),
    false,
  ),
  expiresInSeconds: v.optional(
    secondsSchema(
      "Seconds until the claim is released, even while it is in use. An existing claim keeps its expiry if that is later, or if it has none.",
    ),
  ),
  zone: v.optional(
    v.pipe(
      v.string(),
      v.maxLength(63),
      v.regex(new RegExp(pattern.zone), `must be ${patternHints[pattern.zone]}`),
      v.description(
        "Zone that the instance should run in, a value of the nodes' label topology.kubernetes.io/zone. It is a preference: if no warm pod is in the zone, the claim gets another one. An instance that exists stays where it is.",
      ),
    ),
  ),
  labels: v.optional(labels),
  env: input("env"),
  secrets: input("secrets"),
  files: input("files"),
});
const releaseBody = v.strictObject(claimBodyFields);
const extendBody = v.strictObject({
  ...releaseBody.entries,
  seconds: secondsSchema("Seconds from now until the claim expires; an expiry that is later stays."),
});

/** `POST /api/v1/tenants/{id}/claim`, `…/extend`, `…/release` and `…/discard`. */
export function claimRoutes(
  services: ClaimServices & {
    readonly activity: Activity;
    /** The digits of the version that a caller names by them or by its name. */
    readonly versionOf: (key: ClaimKey, version: string, clientGone: AbortSignal) => Promise<string>;
  },
): ApiRoute[] {
  return [
    {
      method: "POST",
      path: "/api/v1/tenants/:id/claim",
      access: claimUse,
      summary: "Claim a workload for a tenant",
      description:
        "Creates the claim, or joins the existing one, and waits at most 30 seconds until it is Active. After a 504 the claim continues: call again to keep waiting. If the claim is released during the call, the response is 409; a release that was already in progress is waited for.",
      body: { ...bodySchema(claimBody), allOf: namesWorkload },
      status: 201,
      answer: "Claim",
      errors: [404, 408, 409, 413, 429, 503, 504],
      async handle(request, { clientGone, span }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const body = await readJson(request, claimBody);
        const { env, files, secrets } = body;
        const given = { ...(env !== undefined && { env }), ...(files !== undefined && { files }) };
        const isGiven = secrets !== undefined || Object.keys(given).length > 0;
        const wrong = inputProblems(given, "body");
        const problems = [
          ...(body.labels === undefined ? [] : labelProblems(body.labels, "body.labels")),
          ...wrong,
          ...(secrets === undefined ? [] : secretProblems(secrets, wrong.length === 0 ? given : {}, "body")),
        ];
        if (problems.length > 0) throw new HttpError(400, listed(problems));
        const { actor } = request.caller ?? {};
        if (actor?.role === "tenant") refuseReferences(given, "a key of the role tenant");
        if (actor?.mayClaim === true) refuseReferences(given, "an account that may only claim");
        const workloadRef = workloadOf(body, request);
        const wanted = typeof body.resume === "object" ? body.resume.version : undefined;
        const version =
          wanted && (await services.versionOf({ tenantId, workloadRef }, wanted, clientGone ?? request.signal));
        const resume = body.resume !== false;
        const claimRequest = {
          tenantId,
          workloadRef,
          resume,
          ...(version !== undefined && { version }),
          ...{ expiresInSeconds: body.expiresInSeconds, zone: body.zone, labels: body.labels },
          inputs: isGiven ? { ...given, secrets } : undefined,
        };
        const options = { clientGone: () => clientGone ?? request.signal, span };
        const claim = await claimTenant(claimRequest, services, options);
        request.audit?.about({ instance: claim.instanceId });
        request.audit?.from(claim.source);
        // A new claim counts by its own time.
        if (claim.source === "existing" && claim.instanceId !== undefined) services.activity.touch(claim.instanceId);
        return jsonResponse(claim, { status: 201 });
      },
    },
    {
      method: "POST",
      path: "/api/v1/tenants/:id/extend",
      access: claimUse,
      summary: "Extend a tenant's claim",
      description:
        "Moves the time at which the claim expires to so many seconds from now, by the cluster's clock, and never to an earlier one. The response is 409 if the claim is being released, or does not expire.",
      body: { ...bodySchema(extendBody), allOf: namesWorkload },
      answer: doneSchema("extended", "tenantId", "expiresAt"),
      errors: [404, 408, 409, 413, 503],
      async handle(request) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const body = await readJson(request, extendBody);
        const key = { tenantId, workloadRef: workloadOf(body, request) };
        const expiresAt = await extendClaim(key, services, { seconds: body.seconds, uid: body.uid });
        return jsonResponse({ status: "extended", tenantId, expiresAt });
      },
    },
    {
      method: "POST",
      path: "/api/v1/tenants/:id/release",
      access: claimUse,
      summary: "Release a tenant's claim",
      description:
        "Deletes the claim; the tenant's files are saved, and the pod is deleted. With `wait` the response reports what happened to the files, unless the workload saves none or this server could not observe it.",
      query: { wait: flagSchema("Whether to wait until the claim is gone.") },
      body: { ...bodySchema(releaseBody), allOf: namesWorkload },
      answer: doneSchema("released", "tenantId", "files"),
      errors: [404, 408, 409, 413, 503, 504],
      async handle(request, { clientGone, span }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const wait = queryFlag(request, "wait");
        const body = await readJson(request, releaseBody);
        const key = { tenantId, workloadRef: workloadOf(body, request) };
        const gone = () => clientGone ?? request.signal;
        const files = await releaseTenant(key, services, { wait, uid: body.uid, clientGone: gone, span });
        return jsonResponse({ status: "released", tenantId, ...(files !== undefined && { files }) });
      },
    },
    {
      method: "POST",
      path: "/api/v1/tenants/:id/discard",
      access: namedUse,
      summary: "Discard the files that a release cannot save",
      description:
        "The release of the claim continues without saving them, and its pod is deleted; earlier snapshots stay. The response is 409 if no release has failed.",
      body: { ...bodySchema(releaseBody), allOf: namesWorkload },
      answer: doneSchema("discarded", "tenantId"),
      errors: [404, 408, 409, 413, 503],
      async handle(request) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const body = await readJson(request, releaseBody);
        const key = { tenantId, workloadRef: workloadOf(body, request) };
        await discardFiles(key, services, { uid: body.uid });
        return jsonResponse({ status: "discarded", tenantId });
      },
    },
  ];
}

/** A Secret or ConfigMap of the namespace can be meant for another tenant. */
function refuseReferences({ files = [] }: ClaimInputs, who: string): void {
  const at = files.findIndex(({ secretRef, configMapRef }) => secretRef !== undefined || configMapRef !== undefined);
  if (at < 0) return;
  throw new HttpError(
    403,
    `body.files[${at}]: ${who} may not name Secrets and ConfigMaps; send the content, or a value in secrets`,
  );
}
