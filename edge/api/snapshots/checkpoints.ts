import * as v from "valibot";
import { quote } from "../../../crds/quote.ts";
import { versionNameRule } from "../../../crds/snapshots/version-names.ts";
import { namedUse, tenantUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { pathParam, tenantIdRule } from "../../http/parameters.ts";
import { readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import { type ApiRoute, bodySchema } from "../api-route.ts";
import { makeCheckpoint } from "../claims/checkpoint.ts";
import { claimBodyFields, namesWorkload, workloadOf } from "../claims/claim-body.ts";
import type { ClaimServices } from "../claims/claim-services.ts";
import { doneSchema, versionNameSchema } from "../openapi/schemas.ts";
import { askStore, lookAtSnapshots, type SnapshotServices, storeState } from "./store.ts";
import { keyOf, versionsOf } from "./versions.ts";

const checkpointBody = v.strictObject({
  ...claimBodyFields,
  name: v.optional(
    v.pipe(
      v.string(),
      v.check(versionNameRule.accepts, versionNameRule.says),
      v.metadata({
        ...versionNameSchema,
        description:
          "A name for the version: it then stays until it loses the name, and a claim, copy or comparison can name it. At most 63 letters, digits, dashes, dots or underscores, and not 16 hexadecimal digits.",
      }),
    ),
  ),
});

/** `POST /api/v1/tenants/{id}/checkpoint`, and `DELETE …/names/{name}` of a tenant's snapshot. */
export function checkpointRoutes(services: ClaimServices & SnapshotServices): ApiRoute[] {
  return [
    {
      method: "POST",
      path: "/api/v1/tenants/:id/checkpoint",
      access: namedUse,
      summary: "Save the files of a tenant's instance while it runs",
      description:
        "Makes a checkpoint at once, and waits at most 30 seconds for it. Without a name the session's next checkpoint replaces it. The response is 409 if the instance is not Active, if its workload saves no files, or if another version has the name. After a 504 the checkpoint is still made: until then, a call with the same name waits for it.",
      body: { ...bodySchema(checkpointBody), allOf: namesWorkload },
      status: 201,
      answer: "SnapshotVersion",
      errors: [404, 408, 409, 413, 503, 504],
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const body = await readJson(request, checkpointBody);
        const key = { tenantId, workloadRef: workloadOf(body, request) };
        request.audit?.about({ name: body.name });
        mayBeSilent?.();
        const sha256 = await makeCheckpoint(key, services, { name: body.name, uid: body.uid, clientGone });
        const kept = await lookAtSnapshots(key, services, clientGone);
        const made = kept && versionsOf(key, kept).find((version) => version.sha256 === sha256);
        if (made === undefined) throw new HttpError(409, "a later save of the session has replaced the checkpoint");
        return jsonResponse(made, { status: 201 });
      },
    },
    {
      method: "DELETE",
      path: "/api/v1/tenants/:id/snapshots/:workload/names/:name",
      access: tenantUse,
      summary: "Remove the name of a version of a tenant's files",
      description:
        "The version is not deleted at once: from then on it stays for as long as versions without a name do.",
      answer: doneSchema("removed", "tenantId"),
      errors: [404, 503, 504],
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const key = keyOf(request);
        const name = pathParam(request, "name", versionNameRule);
        mayBeSilent?.();
        const isRemoved =
          (await storeState(services)) !== "none" &&
          (await askStore(({ archives }, call) => archives.dropName(key, name, call), { ...services, clientGone }));
        if (!isRemoved) throw new HttpError(404, `no saved version has the name ${quote(name)}`);
        return jsonResponse({ status: "removed", tenantId: key.tenantId });
      },
    },
  ];
}
