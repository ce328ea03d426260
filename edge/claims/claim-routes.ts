import * as v from "valibot";
import { HttpError } from "../http-error.ts";
import { jsonResponse } from "../json-response.ts";
import { pathParam } from "../path-param.ts";
import { quote } from "../quote.ts";
import { readJson } from "../read-json.ts";
import type { Route, RoutedRequest } from "../route.ts";
import { tenantIdRule } from "../tenant-id-rule.ts";
import { workloadNameRule } from "../workload-name-rule.ts";
import type { ClaimServices } from "./claim-services.ts";
import { claimTenant } from "./claim-tenant.ts";
import { releaseTenant } from "./release-tenant.ts";

const workloadName = v.optional(
  v.pipe(
    v.string(),
    v.check(workloadNameRule.accepts, (issue) => `${workloadNameRule.says}, got ${quote(issue.input)}`),
  ),
);
const claimBody = v.strictObject({
  workload: workloadName,
  workloadRef: workloadName,
  resume: v.optional(v.boolean(), false),
});
const releaseBody = v.strictObject({ workload: workloadName, workloadRef: workloadName });

/** `POST /api/v1/tenants/{id}/claim` and `…/release` (spec.md, section 4.4). */
export function claimRoutes(services: ClaimServices): Route[] {
  return [
    {
      method: "POST",
      path: "/api/v1/tenants/:id/claim",
      async handle(request, { clientGone }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const body = await readJson(request, claimBody);
        const wish = { tenantId, workloadRef: workloadOf(body), resume: body.resume };
        const claim = await claimTenant(wish, services, { clientGone: () => clientGone ?? request.signal });
        return jsonResponse(claim, { status: 201 });
      },
    },
    {
      method: "POST",
      path: "/api/v1/tenants/:id/release",
      async handle(request, { clientGone }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const wait = waitOf(request);
        const workloadRef = workloadOf(await readJson(request, releaseBody));
        const pair = { tenantId, workloadRef };
        await releaseTenant(pair, services, { wait, clientGone: () => clientGone ?? request.signal });
        return jsonResponse({ status: "released", tenantId });
      },
    },
  ];
}

/** `workloadRef` is accepted as an alias of `workload` (spec.md, section 4.4). */
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

function waitOf({ query }: RoutedRequest): boolean {
  const { wait } = query;
  if (wait === undefined || wait === "false") return false;
  if (wait === "true") return true;
  throw new HttpError(400, "query.wait: must be true or false");
}
