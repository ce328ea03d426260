import { isAlreadyExists, isNotFound } from "../../crds/client/api-error.ts";
import { type ClusterClient, listAll } from "../../crds/client/cluster-client.ts";
import { triggers } from "../../crds/kinds.ts";
import { triggerProblems } from "../../crds/schema/validate-trigger.ts";
import type { Trigger, TriggerSpec, TriggerStatus } from "../../crds/trigger.ts";
import { HttpError, quote } from "../http/http-error.ts";
import { pathParam, triggerNameRule } from "../http/parameters.ts";
import { readSpecBody } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";
import { doneSchema, specBodySchema } from "./openapi/schemas.ts";

const ALL = "/api/v1/triggers";
const ONE = "/api/v1/triggers/:id";

/** The routes of triggers: each is a live call. */
export function triggerRoutes(options: { client: ClusterClient; namespace: string }): ApiRoute[] {
  const { client, namespace } = options;
  return [
    {
      method: "GET",
      path: ALL,
      summary: "All triggers",
      answer: ["Trigger"],
      errors: [503],
      async handle() {
        const items = await listAll(triggers, options);
        return jsonResponse(items.map(triggerResponse).sort(byName));
      },
    },
    {
      method: "GET",
      path: ONE,
      summary: "One trigger",
      answer: "Trigger",
      errors: [404, 503],
      async handle(request) {
        const name = pathParam(request, "id", triggerNameRule);
        try {
          return jsonResponse(triggerResponse(await client.get(triggers, { namespace, name })));
        } catch (error) {
          throw isNotFound(error) ? triggerNotFound(name) : error;
        }
      },
    },
    {
      method: "POST",
      path: ALL,
      summary: "Create a trigger",
      body: specBodySchema("TriggerSpec"),
      status: 201,
      answer: "Trigger",
      errors: [408, 409, 413, 503],
      async handle(request) {
        const { name, spec } = await readSpecBody<TriggerSpec>(request, triggerProblems);
        if (name === undefined) throw new HttpError(400, "body.name: is required");
        if (!triggerNameRule.accepts(name)) {
          throw new HttpError(400, `body.name: ${triggerNameRule.says}, got ${quote(name)}`);
        }
        try {
          const created = await client.create(triggers, { metadata: { name, namespace }, spec });
          return jsonResponse(triggerResponse(created), { status: 201 });
        } catch (error) {
          if (!isAlreadyExists(error)) throw error;
          throw new HttpError(
            409,
            `trigger ${quote(name)} exists already; delete it first with DELETE ${ALL}/${name}, or change it with kubectl`,
          );
        }
      },
    },
    {
      method: "DELETE",
      path: ONE,
      summary: "Delete a trigger",
      answer: doneSchema("deleted"),
      errors: [404, 503],
      async handle(request) {
        const name = pathParam(request, "id", triggerNameRule);
        try {
          await client.delete(triggers, { namespace, name });
        } catch (error) {
          throw isNotFound(error) ? triggerNotFound(name) : error;
        }
        return jsonResponse({ status: "deleted" });
      },
    },
  ];
}

function triggerNotFound(name: string): HttpError {
  return new HttpError(
    404,
    `trigger ${quote(name)} does not exist; create it with POST ${ALL}, or apply a TenancyTrigger with kubectl`,
  );
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
}

/** A trigger as the REST API shows it; `phase` is absent until the gateway has looked at it. */
interface TriggerResponse {
  name: string;
  spec: TriggerSpec;
  status: Pick<TriggerStatus, "phase" | "detail">;
  /** ISO 8601. */
  createdAt: string;
}

/** Shows a trigger as the REST API does; what its adapter remembers is not for callers. */
function triggerResponse({ metadata, spec, status }: Trigger): TriggerResponse {
  return {
    name: metadata.name,
    spec,
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(status?.detail !== undefined && { detail: status.detail }),
    },
    createdAt: metadata.creationTimestamp ?? "",
  };
}
