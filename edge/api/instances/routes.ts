import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod, PodPhase } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { isClaimed } from "../../cluster/slim-pod.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import {
  instanceNameRule,
  pathParam,
  queryFlag,
  queryText,
  queryWords,
  tenantIdRule,
  workloadNameRule,
} from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { doneSchema, nameSchema, tenantIdSchema } from "../openapi/schemas.ts";
import { createPages, pageQuery, pageSchemas } from "../pages.ts";
import { instanceDetail } from "./detail.ts";
import { execRoute } from "./exec.ts";
import { findInstance, type InstanceServices, instanceNotFound, instanceResponse } from "./instance.ts";
import { logsRoute } from "./logs.ts";

const phases: readonly PodPhase[] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
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
      description: "Its claim stays in the phase it had. Release is the graceful path.",
      answer: doneSchema("destroyed", "instance"),
      errors: [404, 503],
      async handle(request) {
        const pod = await find(request);
        await destroyInstance(pod, services);
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
        tenant: { ...tenantIdSchema, description: "Only this tenant's." },
        workload: { ...nameSchema, description: "Only this workload's." },
        phase: {
          type: "string",
          pattern: `^(?:${phases.join("|")})(?:,(?:${phases.join("|")}))*$`,
          description: `Only these, by commas: ${phases.join(", ")}.`,
        },
      },
      answer: ["Instance"],
      tells: ["x-tenancy-version"],
      mayTell: ["x-tenancy-next"],
      errors: [503],
      handle(request) {
        const page = pageQuery(request);
        const tenant = queryText(request, "tenant", tenantIdRule);
        const workload = queryText(request, "workload", workloadNameRule);
        const wanted = queryWords(request, "phase", phases);
        requireFresh(cache.pods);
        const { items, headers } = pages.read({
          ...page,
          matches: ({ metadata: { labels = {} }, status }) =>
            (tenant === undefined || labels[label.tenant] === tenant) &&
            (workload === undefined || labels[label.workload] === workload) &&
            (wanted === undefined || wanted.includes(status?.phase ?? "Pending")),
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
 * pod.
 *
 * @throws HttpError 404 where the pod went meanwhile
 */
async function destroyInstance(
  pod: Pod,
  services: Pick<InstanceServices, "client" | "namespace" | "cache">,
): Promise<void> {
  const { client, namespace, cache } = services;
  const { name, uid } = pod.metadata;
  await markClaim(pod, services);
  try {
    const left = await client.delete(
      pods,
      { namespace, name },
      { gracePeriodSeconds: 0, ...(uid !== undefined && { uid }) },
    );
    if (left !== undefined) cache.pods.put(left);
  } catch (error) {
    throw isNotFound(error) || isConflict(error) ? instanceNotFound(name) : error;
  }
}

/** Marks the claim that the pod is bound to, where that is still the same object; other writers are waited out. */
async function markClaim(
  { metadata }: Pod,
  { client, namespace, cache }: Pick<InstanceServices, "client" | "namespace" | "cache">,
): Promise<void> {
  const name = metadata.annotations?.[annotation.claim];
  if (name === undefined) return;
  for (let tries = 1; ; tries += 1) {
    try {
      const claim = await client.get(claims, { namespace, name });
      const { uid, resourceVersion } = claim.metadata;
      if (uid !== metadata.annotations?.[annotation.claimUid]) return;
      const body = { metadata: { resourceVersion, annotations: { [annotation.destroyed]: metadata.name } } };
      cache.claims.put(await client.patch(claims, { namespace, name }, { type: "merge", body }));
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}
