import { requireFresh } from "../../cluster/freshness.ts";
import { isClaimed } from "../../cluster/slim-pod.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/json-response.ts";
import { pathParam } from "../../http/path-param.ts";
import { quote } from "../../http/quote.ts";
import type { Route, RoutedRequest } from "../../http/router.ts";
import { instanceNameRule } from "../name-rules.ts";
import { destroyInstance } from "./destroy.ts";
import { execRoute } from "./exec.ts";
import type { InstanceServices } from "./find-instance.ts";
import { findInstance } from "./find-instance.ts";
import { instanceResponse } from "./instance-response.ts";
import { logsRoute } from "./logs.ts";

const ALL = "/api/v1/instances";
const ONE = "/api/v1/instances/:id";

/** The routes of instances. */
export function instanceRoutes(services: InstanceServices): Route[] {
  const { cache, activity } = services;
  return [
    {
      method: "GET",
      path: ONE,
      async handle(request) {
        return jsonResponse(instanceResponse(await find(request)));
      },
    },
    {
      method: "POST",
      path: `${ONE}/activity`,
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
      async handle(request) {
        const pod = await find(request);
        await destroyInstance(pod, services);
        return jsonResponse({ status: "destroyed", instance: pod.metadata.name });
      },
    },
    {
      method: "GET",
      path: ALL,
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
