import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { isClaimed } from "../../cluster/slim-pod.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { instanceNameRule, pathParam } from "../../http/parameters.ts";
import { jsonResponse, versionHeader } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { ApiRoute } from "../api-route.ts";
import { doneSchema } from "../openapi/schemas.ts";
import { execRoute } from "./exec.ts";
import { findInstance, type InstanceServices, instanceNotFound, instanceResponse } from "./instance.ts";
import { logsRoute } from "./logs.ts";

const ALL = "/api/v1/instances";
const ONE = "/api/v1/instances/:id";

/** The routes of instances. */
export function instanceRoutes(services: InstanceServices): ApiRoute[] {
  const { cache, activity } = services;
  return [
    {
      method: "GET",
      path: ONE,
      summary: "One managed pod",
      answer: "Instance",
      errors: [404, 503],
      async handle(request) {
        return jsonResponse(instanceResponse(await find(request)));
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
      answer: ["Instance"],
      tells: ["x-tenancy-version"],
      errors: [503],
      handle() {
        requireFresh(cache.pods);
        return jsonResponse([...cache.pods.store.values()].map(instanceResponse).sort(byName), {
          headers: versionHeader(cache.pods.versions().seen),
        });
      },
    },
  ];

  function find(request: RoutedRequest) {
    return findInstance(pathParam(request, "id", instanceNameRule), services);
  }
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
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
