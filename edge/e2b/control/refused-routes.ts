import type { Route } from "../../http/router.ts";
import { notDone } from "./not-done.ts";
import { listOwn, useOne } from "./sandbox-access.ts";

const BUILD = "describe a workload, whose image the cluster builds (docs/how-to/build-an-image.md)";
const VOLUMES = "a sandbox keeps the folders in its workload's spec.filesystem.overlayDirs";
const SECRETS = "use Secrets of Kubernetes, which the workload's spec.network.credentials sends along";
const METRICS = "run a program in the sandbox that reads /sys/fs/cgroup";
const TEAMS = "there are no teams; keys have tenants and roles (docs/reference/keys.md)";

/** Calls that the SDKs have and that are not done. */
export const refusedRoutes: readonly Route[] = [
  refused("PUT /sandboxes/:sandbox/network", "a workload's spec.network says what its instances reach"),
  refused("GET /sandboxes/:sandbox/metrics", METRICS),
  refused("GET /sandboxes/metrics", METRICS),
  refused("POST /templates", BUILD),
  refused("POST /v2/templates", BUILD),
  refused("POST /v3/templates", BUILD),
  refused("PATCH /templates/:template", BUILD),
  refused("PATCH /v2/templates/:template", BUILD),
  refused("POST /templates/:template", BUILD),
  refused("POST /templates/tags", BUILD),
  refused("DELETE /templates/tags", BUILD),
  refused("GET /templates/:template/tags", BUILD),
  refused("GET /templates/:template/files/:hash", BUILD),
  refused("POST /templates/:template/builds/:build", BUILD),
  refused("POST /v2/templates/:template/builds/:build", BUILD),
  refused("GET /templates/:template/builds/:build/status", BUILD),
  refused("GET /templates/:template/builds/:build/logs", BUILD),
  ...["GET", "POST"].map((method) => refused(`${method} /volumes`, VOLUMES)),
  ...["GET", "DELETE"].map((method) => refused(`${method} /volumes/:volume`, VOLUMES)),
  ...["GET", "POST"].map((method) => refused(`${method} /secrets`, SECRETS)),
  ...["GET", "POST", "DELETE"].map((method) => refused(`${method} /secrets/:secret`, SECRETS)),
  refused("GET /teams", TEAMS),
  refused("GET /teams/:team/metrics", TEAMS),
  refused("GET /teams/:team/metrics/max", TEAMS),
];

function refused(call: string, why: string): Route {
  const [method, path = ""] = call.split(" ");
  return {
    method: method as Route["method"],
    path: `/e2b${path}`,
    access: path.includes(":sandbox") ? useOne : listOwn,
    act: "none",
    query: "any",
    handle() {
      throw notDone(call.replaceAll(/:(\w+)/g, "{$1}"), why);
    },
  };
}
