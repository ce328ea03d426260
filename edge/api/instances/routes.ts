import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod, PodPhase } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import { instanceUse, instanceView, tenantLists } from "../../access/route-access.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { isClaimed } from "../../cluster/slim-pod.ts";
import { HttpError } from "../../http/http-error.ts";
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
  says: `${tenantIdRule.says}; empty means unclaimed`,
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
      access: instanceView,
      summary: "One managed pod",
      query: {
        detail: flagSchema("Whether to include its node, its containers and its Events, read now."),
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
      access: instanceUse,
      // Programs send it every few seconds.
      act: "none",
      summary: "Report that a pod is in use",
      description: "Postpones its idle release. Claim calls and exec count by themselves.",
      answer: doneSchema("active", "instance"),
      errors: [404, 409, 503],
      async handle(request) {
        const pod = await find(request);
        const instance = pod.metadata.name;
        if (!isClaimed(pod)) {
          throw new HttpError(409, `instance ${quote(instance)} is not claimed, so it has no idle timeout to postpone`);
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
      access: instanceUse,
      summary: "Delete a pod now without saving its files",
      description:
        "A claim that is Active with it stays Active, without a pod; a waiting claim gets another pod, and a claim that is being released ends. To save the files, release the claim instead.",
      query: {
        tenant: {
          anyOf: [tenantIdSchema, { type: "string", maxLength: 0 }],
          description:
            "The tenant who must have the instance; empty for an unclaimed warm pod. 409 if that is no longer true.",
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
      access: tenantLists,
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
 * The shortest grace period that ends a pod's containers: with 0 the object is gone at once, and the kubelet gives the
 * containers the pod's own grace period, in which no one can reach them. That of a pod with files is long, since its
 * launcher waits for them to be saved.
 */
function destroyGrace({ metadata }: Pod): number {
  return metadata.annotations?.[annotation.overlayDirs] === undefined ? 0 : 1;
}

/**
 * Force-deletes a pod without saving its files.
 *
 * Its claim is marked first, so that the operator leaves the claim in its phase instead of giving it another pod. A pod
 * that looks unclaimed is deleted only if unchanged: a claim may bind it at any moment, before the watch shows it.
 *
 * @param options.tenantId the tenant who must have it; empty for an unclaimed pod; any if undefined
 * @throws HttpError 404 if the pod is gone, 409 if it does not belong to that tenant
 */
export async function destroyInstance(
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
    const { outcome } = await cluster(pods)
      .of(pod)
      .delete({ gracePeriodSeconds: destroyGrace(pod), precondition });
    if (outcome === "notFound") throw instanceNotFound(name);
    if (outcome !== "conflict") return;
    pod = await readNow();
    if (tries === MAX_TRIES) throw new HttpError(503, `instance ${quote(name)} keeps changing; try again`);
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

/** @throws HttpError 409 if the pod does not belong to the given tenant */
function requireTenant(pod: Pod, meant: string | undefined): void {
  const tenantId = tenantOf(pod);
  if (meant === undefined || tenantId === meant) return;
  const whose = tenantId === "" ? "it is not claimed" : `tenant ${quote(tenantId)} has claimed it in the meantime`;
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
