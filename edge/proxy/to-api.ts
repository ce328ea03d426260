import type { Log } from "../../crds/log.ts";
import { createCounts } from "../counts.ts";
import { type Access, accessedOf } from "./access.ts";
import type { IncomingRequest } from "./client-connection.ts";
import type { Address } from "./entry/address.ts";
import { ENVD_PORT } from "./entry/sandbox-address.ts";
import { AnswerError, type Forward } from "./forward.ts";
import type { ResponseChanges } from "./http/forward-head.ts";
import { errorAnswer, type LocalAnswer } from "./http/local-answer.ts";
import type { PodTarget } from "./pod-connections.ts";

/** Where the API listens, as `connect` takes it. */
export interface ApiAddress {
  readonly hostname: string;
  readonly port: number;
}

/** A request to the daemon of a sandbox, at an address of E2B's SDKs. */
export type ToApi = (
  request: IncomingRequest,
  address: Address,
) => Forward | { readonly kind: "answer"; readonly answer: LocalAnswer };

const TOO_MANY = errorAnswer(503, "too many requests to this sandbox at once; try again shortly", [
  ["Retry-After", "1"],
]);
/** The visitor's own, which the front door's replace. */
const HIDDEN = new Set(["e2b-sandbox-id", "e2b-sandbox-port"]);
/** No cookie is for this host, and none may delete those of other hosts. */
const RESPONSE: ResponseChanges = {
  setCookie: () => undefined,
  drops: (name) => name === "alt-svc" || name === "clear-site-data",
};
/** At a host that all tenants share, a file of one must not run as a page. */
const SHARED_RESPONSE: ResponseChanges = { ...RESPONSE, fields: [["Content-Security-Policy", "sandbox"]] };

/**
 * Passes requests to a sandbox's port {@link ENVD_PORT} on to the API, which answers them in place of a program, and
 * decides by itself what each may do. It gets the sandbox in headers that only the front door sets, the credentials
 * as they came, and no cookie: a browser sends those of one port of a host to all.
 *
 * @param options.api undefined: there is no way to it
 * @param options.most concurrent requests to one tenant's sandboxes
 */
export function createToApi(options: {
  api: ApiAddress | undefined;
  hasWorkload: (name: string) => boolean;
  most: number;
  access: Pick<Access, "ended">;
}): ToApi {
  const { api, hasWorkload, most, access } = options;
  const inUse = createCounts();
  const target: PodTarget | undefined = api && {
    ...{ uid: "api", host: api.hostname, port: api.port },
    confirm: async () => true,
  };

  return (request, { form, sandbox = "", instance }) => {
    const { head } = request;
    const { workload = "", tenantId = "" } = instance ?? {};
    // Nothing that lasts as long as a stream may hold the request.
    const what = accessedOf(request);
    const refuse = (answer: LocalAnswer) => {
      access.ended({ ...what, status: answer.status });
      return { kind: "answer", answer } as const;
    };
    if (api === undefined || target === undefined) return refuse(noWay(sandbox));
    if (inUse.of(tenantId) >= most) return refuse(TOO_MANY);
    return {
      kind: "forward",
      request: {
        target: head.target,
        host: `${api.hostname.includes(":") ? `[${api.hostname}]` : api.hostname}:${api.port}`,
        hidesCookies: true,
        hiddenFields: HIDDEN,
        fields: [
          ["E2b-Sandbox-Id", sandbox],
          ["E2b-Sandbox-Port", String(ENVD_PORT)],
        ],
      },
      response: form === "host" ? RESPONSE : SHARED_RESPONSE,
      onStart: () => inUse.add(tenantId),
      findPod(_, lost) {
        if (lost !== undefined) throw new AnswerError(unreachable(sandbox), { cause: lost.error });
        return target;
      },
      onEnd(end) {
        inUse.remove(tenantId);
        // Strangers choose these names: only those that exist become a label.
        access.ended({ ...what, ...(hasWorkload(workload) && { tenant: tenantId, workload }), ...end });
      },
    };
  };
}

function noWay(sandboxId: string): LocalAnswer {
  return answer(502, "this front door has no way to the API; set TENANCY_PROXY_API", sandboxId);
}

function unreachable(sandboxId: string): LocalAnswer {
  return answer(503, "the API cannot be reached; try again", sandboxId);
}

function answer(code: number, message: string, sandboxId: string): LocalAnswer {
  const fields = code === 503 ? ([["Retry-After", "1"]] as const) : [];
  return { status: code, fields, contentType: "application/json", body: JSON.stringify({ code, message, sandboxId }) };
}

/**
 * Where the front door reaches the API: as configured, otherwise the listener of this process.
 *
 * @param options.own its URL. Undefined where this process has no API
 */
export function apiAddress(
  configured: ApiAddress | undefined,
  { own, log }: { own: string | undefined; log: Pick<Log, "info"> },
): ApiAddress | undefined {
  if (configured !== undefined) return configured;
  if (own !== undefined) {
    const { hostname, port } = new URL(own);
    const name = hostname.replace(/^\[|\]$/g, "");
    // A listener on all addresses is reached at the loopback one.
    const address = name === "0.0.0.0" ? "127.0.0.1" : name === "::" ? "::1" : name;
    return { hostname: address, port: Number(port || 80) };
  }
  const problem = "TENANCY_PROXY_API is not set: E2B's SDKs cannot use commands and files through this front door";
  log.info({ problem }, "this front door has no way to the API");
  return undefined;
}
