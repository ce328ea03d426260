import { pattern } from "../../crds/schema/patterns.ts";
import { isTime } from "../../crds/time.ts";
import { adminOnly } from "../access/route-access.ts";
import type { Audit } from "../audit/audit.ts";
import type { AuditRecord } from "../audit/audit-record.ts";
import { asciiJson } from "../audit/audit-text.ts";
import { HttpError } from "../http/http-error.ts";
import { type PathRule, queryText, queryWords, tenantIdRule } from "../http/parameters.ts";
import { jsonResponse } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import type { ApiRoute } from "./api-route.ts";
import { tenantIdSchema } from "./openapi/schemas.ts";
import { limitQuery, limitSchema } from "./pages.ts";

export interface AuditServices {
  readonly audit: Pick<Audit, "newest" | "completeSince" | "omitted">;
  /** A name of this process. */
  readonly instance: string;
}

const DEFAULT_LIMIT = 500;
const ACTS = ["change", "look"];
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

const actorRule: PathRule = {
  accepts: (value) => value.length >= 1 && value.length <= 512,
  says: "an actor is a key's id, a kind without ids such as root or unknown, or person: or serviceAccount: and an id",
};
const timeRule: PathRule = {
  accepts: isTime,
  says: "must be a time (RFC 3339)",
};
const cursorRule: PathRule = {
  accepts: (value) => /^[0-9a-z]{1,32}\.\d{1,15}$/.test(value),
  says: "must be what x-tenancy-next of the page before says",
};

/** Kinds whose ids others choose: they could be those of a key, or `root`. */
const NAMED_KIND = /^(person|serviceAccount):/;

/** `GET /api/v1/audit`. */
export function auditRoute({ audit, instance }: AuditServices): ApiRoute {
  return {
    method: "GET",
    path: "/api/v1/audit",
    access: adminOnly,
    summary: "Who changed or looked at what, on one replica",
    description:
      "Newest first, from the memory of the replica that answers: call several times to reach other replicas. At most 10 000 records, and 8 MiB; when they are used up, the oldest of the actor with the most goes first.",
    query: {
      actor: {
        ...{ type: "string", minLength: 1, maxLength: 512 },
        description:
          "Only of this actor: the `id` of a key, a `kind` without ids, or of people and accounts both, such as `person:alice`.",
      },
      tenant: { ...tenantIdSchema, description: "Only about this tenant." },
      act: { type: "string", enum: ACTS, description: "Only changes, or only looks." },
      method: { type: "string", enum: METHODS, description: "Only of this method." },
      since: {
        type: "string",
        format: "date-time",
        pattern: pattern.time,
        description: "Only records made since then.",
      },
      limit: limitSchema("Maximum number of records.", { default: DEFAULT_LIMIT }),
      after: {
        ...{ type: "string", pattern: "^[0-9a-z]{1,32}\\.\\d{1,15}$" },
        description: "The next page, as x-tenancy-next names it; of the same replica only.",
      },
    },
    answer: "AuditLog",
    mayTell: ["x-tenancy-next"],
    errors: [409],
    handle(request) {
      const matches = filterOf(request);
      // Most lines can be left out without parsing them.
      const { actor, tenant } = request.query;
      const id = typeof actor === "string" ? actor.replace(NAMED_KIND, "") : undefined;
      const texts = [id, tenant].flatMap((text) => (text ? [asciiJson(text)] : []));
      const limit = limitQuery(request) ?? DEFAULT_LIMIT;
      const before = cursorOf(request);
      const found: { id: number; record: AuditRecord }[] = [];
      for (const { id, line } of audit.newest(before)) {
        if (!texts.every((text) => line.includes(text))) continue;
        const { audit: _, ...record } = JSON.parse(line) as AuditRecord & { audit: true };
        if (!matches(record)) continue;
        found.push({ id, record });
        if (found.length > limit) break;
      }
      const page = found.slice(0, limit);
      const next = found.length > limit ? { "x-tenancy-next": `${instance}.${page.at(-1)?.id}` } : {};
      const body = {
        replica: instance,
        since: new Date(audit.completeSince()).toISOString(),
        omitted: audit.omitted(),
        records: page.map(({ record }) => record),
      };
      return jsonResponse(body, { headers: next });
    },
  };

  /** @throws HttpError 409 for a page of another replica, whose ids mean nothing here */
  function cursorOf(request: RoutedRequest): number | undefined {
    const cursor = queryText(request, "after", cursorRule);
    if (cursor === undefined) return undefined;
    const [replica, id] = cursor.split(".");
    if (replica === instance) return Number(id);
    throw new HttpError(
      409,
      `query.after: is of replica ${replica}, and ${instance} has answered; ask that one, or begin again without after`,
    );
  }
}

/** @throws HttpError 400 for a value that no record can have */
function filterOf(request: RoutedRequest): (record: AuditRecord) => boolean {
  const actor = queryText(request, "actor", actorRule);
  const tenant = queryText(request, "tenant", tenantIdRule);
  const acts = queryWords(request, "act", ACTS);
  const methods = queryWords(request, "method", METHODS);
  const since = queryText(request, "since", timeRule);
  const sinceMs = since === undefined ? undefined : Date.parse(since);
  return ({ actor: { kind, id = kind }, object, act, method, time }) =>
    (actor === undefined || (NAMED_KIND.test(`${kind}:`) ? `${kind}:${id}` : id) === actor) &&
    (tenant === undefined || object.tenant === tenant || object.toTenant === tenant) &&
    (acts === undefined || acts.includes(act)) &&
    (methods === undefined || methods.includes(method)) &&
    (sinceMs === undefined || Date.parse(time) >= sinceMs);
}
