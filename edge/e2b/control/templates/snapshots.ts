import * as v from "valibot";
import { readKeptSandbox } from "../../../../crds/claims/kept-sandbox.ts";
import { allArchives } from "../../../../crds/snapshots/kept-versions.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import { isNamed, versionNameRule } from "../../../../crds/snapshots/version-names.ts";
import { root } from "../../../access/actor.ts";
import { anyKey, type RouteAccess, tenantUse } from "../../../access/route-access.ts";
import { makeCheckpoint } from "../../../api/claims/checkpoint.ts";
import { findClaims } from "../../../api/claims/release-tenant.ts";
import { deleteSnapshot } from "../../../api/snapshots/routes.ts";
import { askStore, lookAtSnapshots, storeState } from "../../../api/snapshots/store.ts";
import { HttpError } from "../../../http/http-error.ts";
import { queryText } from "../../../http/parameters.ts";
import { readJson } from "../../../http/read-json.ts";
import { jsonResponse } from "../../../http/response.ts";
import type { Route, RoutedRequest } from "../../../http/router.ts";
import { readSandboxId } from "../../sandbox-id.ts";
import type { ControlServices } from "../control-services.ts";
import { requireSavable } from "../kept-files.ts";
import { unlessGone } from "../kill.ts";
import { countList, cursorText, limitQuery, nextHeader } from "../lists/pages.ts";
import { savedPage } from "../lists/paused.ts";
import { randomText } from "../new-tenant.ts";
import { notDone } from "../not-done.ts";
import { requireRunning } from "../sandbox.ts";
import { mayUseFiles, reachesKey, sandboxKey, useOne } from "../sandbox-access.ts";
import { readSnapshotId, type SnapshotName, snapshotId, snapshotNotFound, templateParam } from "./template.ts";

const body = v.strictObject({
  name: v.nullish(v.pipe(v.string(), v.check(versionNameRule.accepts, versionNameRule.says))),
});
const cursorSchema = v.pipe(
  v.string(),
  v.maxLength(1024),
  v.parseJson(),
  v.strictObject({ tenantId: v.string(), workloadRef: v.string() }),
);

/** Saved files have no part in the rights of an account that may only claim. */
const listFiles: RouteAccess = { ...anyKey, checksWorkload: true };
const deleteFiles: RouteAccess = { ...tenantUse, whose: "own", checksWorkload: true };

/** `POST /sandboxes/{id}/snapshots`, `GET /snapshots` and `DELETE /templates/{id}`. */
export function snapshotRoutes(services: ControlServices): Route[] {
  return [
    {
      method: "POST",
      path: "/e2b/sandboxes/:sandbox/snapshots",
      access: useOne,
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const key = sandboxKey(request);
        const { name } = await readJson(request, body, { mayBeEmpty: true });
        const snapshot = { key, name: name ?? `s-${randomText(10)}` };
        request.audit?.about({ name: snapshot.name });
        const { claim } = await requireRunning(request, services, clientGone);
        await requireSavable(claim, services);
        mayBeSilent?.();
        await makeCheckpoint(key, services, { name: snapshot.name, uid: claim.metadata.uid, clientGone });
        return jsonResponse(shown(snapshot), { status: 201 });
      },
    },
    {
      method: "GET",
      path: "/e2b/snapshots",
      access: listFiles,
      query: { sandboxID: {}, name: {}, limit: {}, nextToken: {} },
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const { actor = root } = request.caller ?? {};
        const limit = limitQuery(request);
        const after = cursorOf(request);
        const wanted = queryText(request, "name", { accepts: () => true, says: "" });
        const sandbox = queryText(request, "sandboxID", { accepts: () => true, says: "" });
        const isWanted = (one: SnapshotName) =>
          wanted === undefined || one.name === wanted || snapshotId(one) === wanted;
        countList(actor, services);
        mayBeSilent?.();
        if (sandbox !== undefined) {
          const key = readSandboxId(sandbox);
          if (key === undefined || !(actor.role === "admin" || reachesKey(actor, key))) return jsonResponse([]);
          const kept = await lookAtSnapshots(key, services, clientGone);
          const names = kept === undefined ? [] : allArchives(kept).flatMap((one) => one.names ?? []);
          return jsonResponse(namesOf(key, names).filter(isWanted).map(shown));
        }
        const query = { template: undefined, tenantId: undefined, limit, after, versions: true };
        const { items, next } = await savedPage(query, { actor, services, clientGone }, (entry) => {
          const { tenantId, workloadRef, metadata } = entry;
          return namesOf({ tenantId, workloadRef }, metadata?.names ?? []).filter(isWanted);
        });
        return jsonResponse(items.map(shown), { headers: nextHeader(next) });
      },
    },
    {
      method: "DELETE",
      path: "/e2b/templates/:template",
      access: deleteFiles,
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const { actor = root } = request.caller ?? {};
        const snapshot = readSnapshotId(templateParam(request));
        if (snapshot === undefined)
          throw notDone(
            "DELETE /templates/{template} of a workload",
            "delete the workload by the REST API, or kubectl",
          );
        const { key, name } = snapshot;
        request.audit?.about({ tenant: key.tenantId, workload: key.workloadRef, name });
        if (!mayUseFiles(actor, key)) throw snapshotNotFound(snapshot);
        mayBeSilent?.();
        const isRemoved =
          (await storeState(services)) !== "none" &&
          (await askStore(({ archives }, call) => archives.dropName(key, name, call), { ...services, clientGone }));
        if (!isRemoved) throw snapshotNotFound(snapshot);
        await deleteRest(key, services, clientGone);
        return new Response(null, { status: 204 });
      },
    },
  ];
}

/** Deletes what a sandbox that was killed has left for its snapshots, with the last of them. */
async function deleteRest(key: SnapshotKey, services: ControlServices, clientGone: AbortSignal): Promise<void> {
  if ((await findClaims(key, services)).length > 0) return;
  // A sandbox that was not killed has a newest version, or a claim.
  const keeps: NonNullable<Parameters<typeof deleteSnapshot>[2]["keeps"]> = ({ newest, versions }) =>
    newest !== undefined ||
    versions.length === 0 ||
    versions.some((one) => isNamed(one) || readKeptSandbox(one.sandbox, key)?.made !== true);
  await unlessGone(deleteSnapshot(key, services, { keeps, clientGone }));
}

function namesOf(key: SnapshotKey, names: readonly string[]): SnapshotName[] {
  return [...new Set(names)].map((name) => ({ key, name }));
}

function shown(snapshot: SnapshotName): { snapshotID: string; names: string[] } {
  const id = snapshotId(snapshot);
  return { snapshotID: id, names: [id] };
}

function cursorOf(request: RoutedRequest): SnapshotKey | undefined {
  const text = cursorText(request);
  if (text === undefined) return undefined;
  const { success, output } = v.safeParse(cursorSchema, text);
  if (!success) throw new HttpError(400, "query.nextToken: must be what x-next-token returned");
  return output;
}
