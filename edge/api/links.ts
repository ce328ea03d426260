import * as v from "valibot";
import type { Clock } from "../../crds/client/clock.ts";
import { servedPort } from "../../crds/defaults.ts";
import type { HostTarget } from "../../crds/host-name.ts";
import { quote } from "../../crds/quote.ts";
import { pattern } from "../../crds/schema/patterns.ts";
import { root } from "../access/actor.ts";
import { requireWorkload } from "../access/authorize.ts";
import { namedUse } from "../access/route-access.ts";
import { requireFresh } from "../cluster/freshness.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { HttpError } from "../http/http-error.ts";
import { pathParam, tenantIdRule, workloadNameRule } from "../http/parameters.ts";
import { readJson } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import { type ApiRoute, bodySchema } from "./api-route.ts";

/** Makes signed addresses of the front door, which admit everyone who has them. */
export interface Links {
  readonly maxSeconds: number;
  /** The instance's address at the front door, without a token. */
  address(instance: HostTarget): string;
  /**
   * Undefined if no key can sign now.
   *
   * @param by the `ref` of the API key that asks for the link, which ends with that key. @default TENANCY_API_KEY
   */
  create(instance: HostTarget, expiresAt: number, by?: string): string | undefined;
  /** Why no key can sign. */
  problem(): string | undefined;
}

export interface LinkServices {
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "workloads">;
  readonly clock: Clock;
  /** Undefined if this edge has no front door configured. */
  readonly links?: Links | undefined;
}

const DEFAULT_SECONDS = 3600;
/** Upper limit of TENANCY_PROXY_LINK_MAX. */
const MOST_SECONDS = 31_536_000;
/** The front door does not see the end of a ServiceAccount. */
const MOST_ACCOUNT_SECONDS = 600;
const says = (issue: v.RegexIssue<string> | v.MaxLengthIssue<string, number>) =>
  `${workloadNameRule.says}, got ${quote(issue.input)}`;
/** @param maxSeconds also part of the OpenAPI document, so the schema depends on the server's setting */
const linkBodyOf = (maxSeconds: number) =>
  v.strictObject({
    workload: v.pipe(
      v.string(),
      v.regex(new RegExp(pattern.subdomain), says),
      v.maxLength(63, says),
      v.description("The workload, whose `network.expose` must be `link` or `public`."),
    ),
    expiresInSeconds: v.optional(
      v.pipe(
        v.number(),
        v.integer("must be a whole number"),
        v.minValue(1, "must be at least 1"),
        v.maxValue(maxSeconds, `must be at most ${maxSeconds} (TENANCY_PROXY_LINK_MAX)`),
        v.description("How long the link is valid; at most TENANCY_PROXY_LINK_MAX."),
      ),
      Math.min(DEFAULT_SECONDS, maxSeconds),
    ),
    port: v.optional(
      v.pipe(
        v.number(),
        v.integer("must be a whole number"),
        v.minValue(1, "must be at least 1"),
        v.maxValue(65_535, "must be at most 65535"),
        v.description("One of the workload's `network.ports`; the first one by default."),
      ),
    ),
  });

/** `POST /api/v1/tenants/{id}/links`. */
export function linkRoutes({ namespace, cache, clock, links }: LinkServices): ApiRoute[] {
  const maxSeconds = links?.maxSeconds ?? MOST_SECONDS;
  const linkBody = linkBodyOf(maxSeconds);
  return [
    {
      method: "POST",
      path: "/api/v1/tenants/:id/links",
      access: namedUse,
      summary: "Create a link to a tenant's instance",
      description:
        "An address of the front door that admits everyone who has it, until it expires: a link is a password. A single link cannot be revoked; deleting the API key that asked for it ends it, one that a token asked for ends with that token, that of a ServiceAccount at the latest after 10 minutes, and removing the key that signed it ends all of that key's links.",
      body: bodySchema(linkBody),
      status: 201,
      answer: "Link",
      errors: [404, 408, 409, 413, 503],
      async handle(request) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const { workload: name, expiresInSeconds, port: given } = await readJson(request, linkBody);
        request.audit?.about({ workload: name });
        requireWorkload(request.caller?.actor, name);
        if (links === undefined)
          throw new HttpError(
            409,
            "no front door is configured: set TENANCY_PROXY_DOMAIN, or serve one with the role proxy",
          );
        requireFresh(cache.workloads);
        const workload = cache.workloads.store.get({ namespace, name });
        if (workload === undefined) throw new HttpError(404, `workload ${quote(name)} does not exist`);
        const port = servedPort(workload.spec, given);
        if (port === false) throw new HttpError(400, `body.port: ${given} is not in the workload's network.ports`);
        const { expose = "none" } = workload.spec.network ?? {};
        if (expose !== "link" && expose !== "public") {
          throw new HttpError(
            409,
            `network.expose of workload ${quote(name)} is ${expose}, which does not allow links: set it to link`,
          );
        }
        const { actor = root } = request.caller ?? {};
        const most = actor.kind === "serviceAccount" ? MOST_ACCOUNT_SECONDS : maxSeconds;
        const expiresAt = Math.min(
          Math.floor(clock.now() / 1000) + Math.min(expiresInSeconds, most),
          Math.floor((actor.endsAt ?? Number.POSITIVE_INFINITY) / 1000),
        );
        const by = actor === root ? undefined : actor.ref;
        const url = links.create({ workload: name, tenantId, ...(port !== undefined && { port }) }, expiresAt, by);
        if (url === undefined)
          throw new HttpError(503, links.problem() ?? "links cannot be signed yet; try again shortly");
        const answer = { url, expiresAt: new Date(expiresAt * 1000).toISOString(), tenantId, workloadRef: name };
        return jsonResponse(answer, { status: 201, headers: { "cache-control": "no-store" } });
      },
    },
  ];
}
