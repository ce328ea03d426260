import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod, PodPhase } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { isClaimed } from "../../cluster/slim-pod.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { instanceNameRule, pathParam, queryFlag, queryText, tenantIdRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { doneSchema, tenantIdSchema } from "../openapi/schemas.ts";
import { createPages, filterQuery, filterSchemas, pageQuery, pageSchemas } from "../pages.ts";
import { instanceDetail } from "./detail.ts";
import { execRoute } from "./exec.ts";
import { findInstance, type InstanceServices, instanceNotFound, instanceResponse } from "./instance.ts";
import { logsRoute } from "./logs.ts";

const phases: readonly PodPhase[] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
const tenantIdOrNone = {
  accepts: (value: string) => value === "" || tenantIdRule.accepts(value),
  says: `${tenantIdRule.says}; empty is nobody`,
};
const ALL = "/api/v1/instances";
const ONE = "/api/v1/instances/:id";

/** The routes of instances. */
export function instanceRoutes(services: InstanceServices): ApiRoute[] {
  const { cache, activity } = services;
  const pages = createPages<Pod>(cache.pods, services);
  return [
    {
      method: "GET",
      path: ONE,
      summary: "One managed pod",
      query: {
        detail: flagSchema("Whether its node, its containers and its Events are told too, read at this moment."),
      },
      answer: "InstanceDetail",
      errors: [404, 503],
      async handle(request) {
        const isDetailed = queryFlag(request, "detail");
        const pod = await find(request);
        return jsonResponse(isDetailed ? await instanceDetail(pod, services) : instanceResponse(pod));
      },
    },
    {
      method: "POST",
      path: `${ONE}/activity`,
      summary: "Report that a pod is in use",
      description: "Puts its idle release off. Claim calls and exec count by themselves.",
      answer: doneSchema("active", "instance"),
      errors: [404, 409, 503],
      async handle(request) {
        const pod = await find(request);
        const instance = pod.metadata.name;
        if (!isClaimed(pod)) {
          throw new HttpError(409, `instance ${quote(instance)} is not claimed, so there is no idle time to put off`);
        }
        activity.touch(instance);
        return jsonResponse({ status: "active", instance });
      },
    },
    execRoute(services),
    logsRoute(services),
    {
      method: "POST",
      path: `${ONE}/destroy`,
      summary: "Delete a pod at once and save nothing",
      description:
        "The claim that is Active with it stays Active, without a pod; one that waits gets another pod, and one that is being released goes. Release is the graceful path.",
      query: {
        tenant: {
          anyOf: [tenantIdSchema, { type: "string", maxLength: 0 }],
          description: "Whose it is, empty for a warm pod that nobody has claimed: 409 where that is not so any more.",
        },
      },
      answer: doneSchema("destroyed", "instance"),
      errors: [404, 409, 503],
      async handle(request) {
        const tenantId = queryText(request, "tenant", tenantIdOrNone);
        const pod = await find(request);
        await destroyInstance(pod, { tenantId, services });
        return jsonResponse({ status: "destroyed", instance: pod.metadata.name });
      },
    },
    {
      method: "GET",
      path: ALL,
      summary: "All managed pods",
      description: "By name.",
      query: {
        ...pageSchemas({}),
        ...filterSchemas(phases),
      },
      answer: ["Instance"],
      tells: ["x-tenancy-version"],
      mayTell: ["x-tenancy-next"],
      errors: [503],
      handle(request) {
        const page = pageQuery(request);
        const isWanted = filterQuery(request, phases);
        requireFresh(cache.pods);
        const { items, headers } = pages.read({
          ...page,
          matches: ({ metadata: { labels = {} }, status }) =>
            isWanted({ tenant: labels[label.tenant], workload: labels[label.workload], phase: status?.phase }),
        });
        return jsonResponse(items.map(instanceResponse), { headers });
      },
    },
  ];

  function find(request: RoutedRequest) {
    return findInstance(pathParam(request, "id", instanceNameRule), services);
  }
}

const MAX_TRIES = 5;

/**
 * Force-deletes a pod and saves nothing.
 *
 * Its claim is marked first, so that the operator leaves the claim in the phase it had instead of giving it another
 * pod. A pod that looks unclaimed is deleted only as it was seen: a claim may bind it at any moment, which the watch
 * has yet to show.
 *
 * @param options.tenantId whose it has to be, empty for nobody's; anybody's where it is undefined
 * @throws HttpError 404 where the pod went meanwhile, 409 where it is not that tenant's
 */
async function destroyInstance(
  known: Pod,
  { tenantId, services }: { tenantId: string | undefined; services: Pick<InstanceServices, "cluster"> },
): Promise<void> {
  const { cluster } = services;
  const { name, uid } = known.metadata;
  // Before a refusal the cluster is asked, since the watch may be behind.
  let pod = tenantId === undefined || tenantOf(known) === tenantId ? known : await readNow();
  for (let tries = 1; ; tries += 1) {
    requireTenant(pod, tenantId);
    const isFree = !isClaimed(pod);
    if (!isFree) await markClaim(pod, services);
    const precondition = isFree ? "resourceVersion" : "uid";
    const { outcome } = await cluster(pods).of(pod).delete({ gracePeriodSeconds: 0, precondition });
    if (outcome === "notFound") throw instanceNotFound(name);
    if (outcome !== "conflict") return;
    pod = await readNow();
    if (tries === MAX_TRIES) throw new HttpError(503, `instance ${quote(name)} changes all the time; try again`);
  }

  async function readNow(): Promise<Pod> {
    const now = await cluster(pods).named(name).find();
    if (now === undefined || now.metadata.uid !== uid) throw instanceNotFound(name);
    return now;
  }
}

function tenantOf({ metadata }: Pod): string {
  return metadata.labels?.[label.tenant] ?? "";
}

/** @throws HttpError 409 where the pod is not the one's whom the caller means */
function requireTenant(pod: Pod, meant: string | undefined): void {
  const tenantId = tenantOf(pod);
  if (meant === undefined || tenantId === meant) return;
  const whose = tenantId === "" ? "nobody has claimed it" : `it is claimed by tenant ${quote(tenantId)} meanwhile`;
  throw new HttpError(409, `instance ${quote(pod.metadata.name)} is not destroyed: ${whose}`);
}

/** Marks the claim that the pod is bound to, where that is still the same object; other writers are waited out. */
async function markClaim({ metadata }: Pod, { cluster }: Pick<InstanceServices, "cluster">): Promise<void> {
  const name = metadata.annotations?.[annotation.claim];
  if (name === undefined) return;
  for (let tries = 1; ; tries += 1) {
    try {
      const claim = await cluster(claims).named(name).get();
      if (claim.metadata.uid !== metadata.annotations?.[annotation.claimUid]) return;
      const annotations = { [annotation.destroyed]: metadata.name };
      await cluster(claims).of(claim).patch({ metadata: { annotations } });
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}
