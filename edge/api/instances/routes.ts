import { requireFresh } from "../../cluster/freshness.ts";
import { isClaimed } from "../../cluster/slim-pod.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/json-response.ts";
import { pathParam } from "../../http/path-param.ts";
import { quote } from "../../http/quote.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { ApiRoute } from "../api-route.ts";
import { instanceNameRule } from "../name-rules.ts";
import { doneSchema } from "../openapi/schemas.ts";
import { destroyInstance } from "./destroy.ts";
import { execRoute } from "./exec.ts";
import { findInstance, type InstanceServices } from "./find-instance.ts";
import { instanceResponse } from "./instance-response.ts";
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
      errors: [503],
      handle() {
        requireFresh(cache.pods);
        return jsonResponse([...cache.pods.store.values()].map(instanceResponse).sort(byName));
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
