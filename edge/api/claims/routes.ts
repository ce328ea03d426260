import * as v from "valibot";
import { pattern } from "../../../crds/schema/patterns.ts";
import { patternHints } from "../../../crds/schema/schema-problems.ts";
import type { Activity } from "../../activity.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/json-response.ts";
import { pathParam, queryFlag } from "../../http/path-param.ts";
import { quote } from "../../http/quote.ts";
import { readJson } from "../../http/read-json.ts";
import type { Route } from "../../http/router.ts";
import { tenantIdRule, workloadNameRule } from "../name-rules.ts";
import type { ClaimServices } from "./claim-services.ts";
import { claimTenant } from "./claim-tenant.ts";
import { releaseTenant } from "./release-tenant.ts";

const workloadName = v.optional(
  v.pipe(
    v.string(),
    v.check(workloadNameRule.accepts, (issue) => `${workloadNameRule.says}, got ${quote(issue.input)}`),
  ),
);
const resumeVersion = v.pipe(
  v.looseObject({
    version: v.pipe(
      v.string(),
      v.regex(new RegExp(pattern.archiveVersion), `must be ${patternHints[pattern.archiveVersion]}`),
    ),
  }),
  v.check((given) => Object.keys(given).length === 1, "has one key, version"),
);
const claimBody = v.strictObject({
  workload: workloadName,
  workloadRef: workloadName,
  resume: v.optional(
    v.lazy((input) => (typeof input === "object" && input !== null ? resumeVersion : v.boolean())),
    false,
  ),
});
const releaseBody = v.strictObject({ workload: workloadName, workloadRef: workloadName });

/** `POST /api/v1/tenants/{id}/claim` and `…/release`. */
export function claimRoutes(services: ClaimServices & { readonly activity: Activity }): Route[] {
  return [
    {
      method: "POST",
      path: "/api/v1/tenants/:id/claim",
      async handle(request, { clientGone }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const body = await readJson(request, claimBody);
        const version = typeof body.resume === "object" ? body.resume.version : undefined;
        const resume = body.resume !== false;
        const claimRequest = {
          tenantId,
          workloadRef: workloadOf(body),
          resume,
          ...(version !== undefined && { version }),
        };
        const claim = await claimTenant(claimRequest, services, { clientGone: () => clientGone ?? request.signal });
        // A claim that was just made counts by its own time.
        if (claim.source === "existing" && claim.instanceId !== undefined) services.activity.touch(claim.instanceId);
        return jsonResponse(claim, { status: 201 });
      },
    },
    {
      method: "POST",
      path: "/api/v1/tenants/:id/release",
      query: ["wait"],
      async handle(request, { clientGone }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const wait = queryFlag(request, "wait");
        const workloadRef = workloadOf(await readJson(request, releaseBody));
        const key = { tenantId, workloadRef };
        await releaseTenant(key, services, { wait, clientGone: () => clientGone ?? request.signal });
        return jsonResponse({ status: "released", tenantId });
      },
    },
  ];
}

/** `workloadRef` is accepted as an alias of `workload`. */
function workloadOf({
  workload,
  workloadRef,
}: {
  workload?: string | undefined;
  workloadRef?: string | undefined;
}): string {
  const name = workload ?? workloadRef;
  if (name === undefined) throw new HttpError(400, "body.workload: is required");
  if (workloadRef !== undefined && workloadRef !== name) {
    throw new HttpError(400, `body.workloadRef: is an alias of body.workload and differs from it; give one of them`);
  }
  return name;
}
