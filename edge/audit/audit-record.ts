import type { Actor } from "../access/actor.ts";

/** A change of something, or a look into an instance, a snapshot, a log, the keys or the audit log. */
export type Act = "change" | "look";

/**
 * One request in the audit log. It never has a body, a query or a header other than the request id.
 *
 * `stage` is of Kubernetes' audit events (https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/),
 * `object` is their `objectRef`; `method`, `route`, `status` and `address` are OpenTelemetry's
 * `http.request.method`, `http.route`, `http.response.status_code` and `client.address`.
 */
export interface AuditRecord {
  /** When this record was made: RFC 3339 with milliseconds. */
  readonly time: string;
  readonly requestId: string;
  /** `ResponseStarted`: a WebSocket was opened, or the head of a streamed response was made. */
  readonly stage: "ResponseStarted" | "ResponseComplete";
  readonly actor: AuditActor;
  /** The client's IP address; absent if the runtime does not know it any more. */
  readonly address?: string;
  readonly act: Act;
  /** `_OTHER` for a method that no route has. */
  readonly method: string;
  /** The pattern, such as `/api/v1/tenants/:id/claim`; `*` for a path that has no route. */
  readonly route: string;
  /** What the request is about, by the kind of thing, such as `tenant`, `workload` or `instance`. */
  readonly object: Readonly<Record<string, string>>;
  readonly status: number;
  readonly outcome: Outcome;
  /** Of a claim: where its pod came from. */
  readonly source?: string;
  /** How the edge closed a WebSocket (RFC 6455); absent if the client closed it, or has left. */
  readonly closeCode?: number;
  /** Milliseconds from the request. */
  readonly ms: number;
}

export interface AuditActor {
  /**
   * The kind of an {@link Actor}; `anonymous` where the server requires no key, `unknown` for a caller who has not
   * proved who it is.
   */
  readonly kind: Actor["kind"] | "anonymous" | "unknown";
  /** Absent for `anonymous` and `unknown`. */
  readonly id?: string;
}

/** `aborted`: the client left before the response; what it asked for may still have happened. */
export type Outcome = "done" | "refused" | "failed" | "aborted";

const CLIENT_GONE = 499;

export function outcomeOf(status: number): Outcome {
  if (status === CLIENT_GONE) return "aborted";
  return status < 400 ? "done" : status < 500 ? "refused" : "failed";
}

interface AuditedRoute {
  readonly method: string;
  readonly public?: boolean;
  readonly access?: { readonly roles: readonly string[] };
  readonly act?: Act | "none";
}

/**
 * What a request of a route is in the audit log; undefined if it is left out. A look is each read that a key of the
 * role `reader` may not make (docs/decisions/audit-log.md#what-is-recorded-follows-from-the-route-table).
 */
export function actOf({ method, public: isPublic = false, access, act }: AuditedRoute): Act | undefined {
  if (act !== undefined) return act === "none" ? undefined : act;
  if (method !== "GET") return "change";
  if (isPublic) return undefined;
  return access?.roles.includes("reader") ? undefined : "look";
}

/**
 * Returns a function that names the object of a route's requests by the path parameters. A parameter `id` or `name` has
 * the name of the collection before it.
 */
export function objectReader(
  route: string,
): (params: Readonly<Record<string, string | undefined>>) => Record<string, string> {
  const names = [...route.matchAll(/([\w-]+)\/:(\w+)/g)].map(([, collection = "", param = ""]) => ({
    param,
    name: param === "id" || param === "name" ? collection.replace(/s$/, "") : param,
  }));
  return (params) =>
    Object.fromEntries(
      names.flatMap(({ param, name }) => (params[param] === undefined ? [] : [[name, decoded(params[param])]])),
    );
}

function decoded(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}
