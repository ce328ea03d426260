import { withDefaults } from "../../../../crds/defaults.ts";
import { quote } from "../../../../crds/quote.ts";
import type { Workload } from "../../../../crds/workload.ts";
import { type RouteAccess, serviceView } from "../../../access/route-access.ts";
import { createPages } from "../../../api/pages.ts";
import { requireFresh } from "../../../cluster/freshness.ts";
import { HttpError } from "../../../http/http-error.ts";
import { queryText, workloadNameRule } from "../../../http/parameters.ts";
import { jsonResponse } from "../../../http/response.ts";
import type { Route, RoutedRequest } from "../../../http/router.ts";
import type { ControlServices } from "../control-services.ts";
import { cursorText, limitQuery, nextHeader } from "../lists/pages.ts";
import { ENVD_VERSION } from "../sandbox.ts";
import { readTemplate, templateParam } from "./template.ts";

/** As workloads in the REST API. */
const view: RouteAccess = serviceView;

/** `GET /templates`, `GET /v2/templates`, `GET /templates/{id}` and `GET /templates/aliases/{alias}`: the workloads. */
export function templateRoutes(services: ControlServices): Route[] {
  const { cache } = services;
  const pages = createPages<Workload>(cache.workloads, services);
  const isTemplate = ({ metadata }: Workload) => !metadata.name.includes("--");

  function find(request: RoutedRequest): Workload {
    requireFresh(cache.workloads);
    const text = templateParam(request);
    const { workloadRef: name, snapshot } = readTemplate(text);
    const found = cache.workloads.store.get({ namespace: services.namespace, name });
    if (found === undefined || snapshot !== undefined || !isTemplate(found))
      throw new HttpError(404, `template ${quote(text)} does not exist: create a workload of this name`);
    return found;
  }

  return [
    {
      method: "GET",
      path: "/e2b/templates",
      access: view,
      query: { teamID: {} },
      handle() {
        requireFresh(cache.workloads);
        const all = [...cache.workloads.store.values()].filter(isTemplate);
        return jsonResponse(all.map(templateOf).sort((a, b) => (a.templateID < b.templateID ? -1 : 1)));
      },
    },
    {
      method: "GET",
      path: "/e2b/v2/templates",
      access: view,
      query: { limit: {}, nextToken: {}, name: {} },
      handle(request) {
        requireFresh(cache.workloads);
        const limit = limitQuery(request);
        const name = queryText(request, "name", workloadNameRule);
        const after = cursorOf(request);
        const matches = (one: Workload) => isTemplate(one) && (name === undefined || one.metadata.name === name);
        const { items, headers } = pages.read({ limit, after, matches });
        const next = headers["x-tenancy-next"];
        return jsonResponse(items.map(templateOf), { headers: nextHeader(next === undefined ? undefined : { next }) });
      },
    },
    {
      method: "GET",
      path: "/e2b/templates/aliases/:template",
      access: view,
      handle: (request) => jsonResponse({ templateID: find(request).metadata.name, public: false }),
    },
    {
      method: "GET",
      path: "/e2b/templates/:template",
      access: view,
      query: { limit: {}, nextToken: {} },
      handle(request) {
        const {
          templateID,
          names,
          aliases,
          public: isPublic,
          createdAt,
          updatedAt,
          ...rest
        } = templateOf(find(request));
        const { lastSpawnedAt, spawnCount, buildID, buildStatus, cpuCount, memoryMB, diskSizeMB } = rest;
        const build = { buildID, status: buildStatus, createdAt, updatedAt, cpuCount, memoryMB, diskSizeMB };
        const shown = { templateID, names, aliases, public: isPublic, createdAt, updatedAt, lastSpawnedAt, spawnCount };
        return jsonResponse({ ...shown, builds: [{ ...build, envdVersion: ENVD_VERSION }] });
      },
    },
  ];
}

function cursorOf(request: RoutedRequest): string | undefined {
  const text = cursorText(request);
  const after = text === undefined ? undefined : /^\{"next":"([^"\\]{1,63})"\}$/.exec(text)?.[1];
  if (text !== undefined && after === undefined)
    throw new HttpError(400, "query.nextToken: must be what x-next-token returned");
  return after;
}

/** What is not known of a workload, such as how often it was used, is as of a template that was never used. */
function templateOf({ metadata, spec, status }: Workload) {
  const { name, uid = "", creationTimestamp = "" } = metadata;
  const { vcpus, memoryMb, diskGb } = withDefaults(spec).resources;
  return {
    templateID: name,
    names: [name],
    aliases: [name],
    public: false,
    buildID: uid,
    buildStatus: buildStatusOf(status?.phase),
    buildCount: 1,
    // E2B counts whole CPUs.
    cpuCount: Math.ceil(vcpus),
    memoryMB: memoryMb,
    diskSizeMB: diskGb * 1024,
    envdVersion: ENVD_VERSION,
    createdAt: creationTimestamp,
    updatedAt: creationTimestamp,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
  };
}

function buildStatusOf(phase: NonNullable<Workload["status"]>["phase"] | undefined) {
  if (phase === "Ready") return "ready";
  return phase === "Error" || phase === "Terminating" ? "error" : "building";
}
