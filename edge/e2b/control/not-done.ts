import * as v from "valibot";
import { withDefaults } from "../../../crds/defaults.ts";
import type { Workload } from "../../../crds/workload.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Route } from "../../http/router.ts";
import { listOwn, useOne } from "./sandbox-access.ts";

/** A call or an option of E2B that is not done: the answer says so, instead of ignoring what the caller relies on. */
export function notDone(what: string, why: string): HttpError {
  return new HttpError(501, `${what} is not implemented by tenancy: ${why}`, { expected: true });
}

/** No list: a schema of an object would take one. */
export const noList = v.pipe(
  v.unknown(),
  v.check((value) => !Array.isArray(value), "must be an object, got array"),
);
const selectors = v.nullish(v.array(v.string()));

/** The options of a new sandbox that only their defaults can be done of. */
export const optionFields = {
  secure: v.nullish(v.boolean()),
  allow_internet_access: v.nullish(v.boolean()),
  autoPauseMemory: v.nullish(v.boolean()),
  autoResume: v.nullish(v.pipe(noList, v.strictObject({ enabled: v.boolean() }))),
  iam: v.nullish(v.pipe(noList, v.strictObject({ tokens: v.nullish(v.unknown()) }))),
  mcp: v.nullish(v.unknown()),
  network: v.nullish(
    v.pipe(
      noList,
      v.strictObject({
        allowOut: selectors,
        denyOut: selectors,
        allowPublicTraffic: v.nullish(v.boolean()),
        egressProxy: v.nullish(v.unknown()),
        httpsPorts: v.nullish(v.array(v.number())),
        maskRequestHost: v.nullish(v.string()),
        rules: v.nullish(v.unknown()),
      }),
    ),
  ),
  volumeMounts: v.nullish(v.array(v.unknown())),
};
const optionsSchema = v.object(optionFields);
type Options = v.InferOutput<typeof optionsSchema>;

const IN_WORKLOAD = "a workload's spec.network says what its instances reach";

/**
 * Refuses what a sandbox of the workload would not have.
 *
 * @throws HttpError 501 that names the option and says what to do
 */
export function refuseOptions(options: Options, workload: Pick<Workload, "spec">): void {
  const { access, expose } = withDefaults(workload.spec).network;
  const { network, iam, mcp, volumeMounts, autoResume } = options;
  if (options.allow_internet_access === false && access !== "none")
    throw notDone("allow_internet_access: false", `${IN_WORKLOAD}; use a template whose spec.network.access is none`);
  if (options.autoPauseMemory === true) throw notDone("autoPauseMemory: true", "a pause keeps files, and no memory");
  if (autoResume?.enabled === true)
    throw notDone("autoResume", "a request does not resume a sandbox; connect to it first");
  if (!isEmpty(iam?.tokens)) throw notDone("iam.tokens", "sandboxes have no tokens of their own");
  if (!isEmpty(mcp)) throw notDone("mcp", "start the program that serves it in the sandbox");
  if (!isEmpty(volumeMounts))
    throw notDone("volumeMounts", "there are no volumes; a sandbox keeps the folders in spec.filesystem.overlayDirs");
  const { allowPublicTraffic, ...rules } = network ?? {};
  if (Object.values(rules).some((rule) => !isEmpty(rule))) throw notDone("network", IN_WORKLOAD);
  if (typeof allowPublicTraffic === "boolean" && allowPublicTraffic !== (expose === "public")) {
    const why = `spec.network.expose of the workload is ${expose}, and only public allows public traffic`;
    throw notDone(`network.allowPublicTraffic: ${allowPublicTraffic}`, why);
  }
}

/** Whether an option has nothing that a caller relies on. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

const BUILD = "describe a workload, whose image the cluster builds (docs/how-to/build-an-image.md)";
const VOLUMES = "a sandbox keeps the folders in its workload's spec.filesystem.overlayDirs";
const SECRETS = "use Secrets of Kubernetes, which the workload's spec.network.credentials sends along";
const TEAMS = "there are no teams; keys have tenants and roles (docs/reference/keys.md)";

/** Calls that the SDKs have and that are not done. */
export const refusedRoutes: readonly Route[] = [
  refused("PUT /sandboxes/:sandbox/network", "a workload's spec.network says what its instances reach"),
  refused("GET /sandboxes/metrics", "ask for the metrics of each sandbox"),
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
