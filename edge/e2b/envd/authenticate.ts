import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { type Actor, type Caller, root, rootCaller } from "../../access/actor.ts";
import type { AdmitActor } from "../../access/key-rates.ts";
import type { Access } from "../../http/access.ts";
import { withApiKeyHeader } from "../../http/api-key.ts";
import { HttpError } from "../../http/http-error.ts";
import type { RequestContext, RoutedRequest } from "../../http/router.ts";
import type { AccessTokens, TokenHolder } from "../access-token.ts";
import { readSandboxId } from "../sandbox-id.ts";
import { ID_HEADER } from "./sandbox.ts";
import { isSignature } from "./signature.ts";

export interface EnvdAccess extends Pick<Access, "authenticate" | "checkPage"> {
  readonly tokens: AccessTokens;
  /** Who has asked for a sandbox; undefined where that is not known. */
  readonly holderOf: (sandbox: ClaimKey) => TokenHolder | undefined;
  /** Counts a request of a token's holder. `authenticate` counts those of keys. */
  readonly admit: AdmitActor;
  readonly clock: Pick<Clock, "now">;
}

const BEARER = /^bearer +\S/i;
const EXPIRATION = /^\d{1,12}$/;

/**
 * Returns the check of who makes a call: by `X-Access-Token`, by a key in `X-API-KEY` or `Authorization: Bearer`, or by
 * the signature of a file's address. Sessions of browsers do not count. `Authorization: Basic` names a user only.
 *
 * @returns throws HttpError 401 for strangers, whether or not there is such a sandbox
 */
export function createEnvdCheck({ tokens, authenticate, checkPage, holderOf, admit, clock }: EnvdAccess) {
  function admitted(actor: Actor): Caller {
    admit(actor);
    return { actor };
  }

  /** The holder of the token that the address of a file is signed with. */
  async function signer({ url, method }: Request, sandbox: ClaimKey): Promise<Actor | undefined> {
    const { pathname, searchParams } = new URL(url);
    const signature = searchParams.get("signature");
    if (pathname !== "/files" || signature === null) return undefined;
    const expiration = searchParams.get("signature_expiration") ?? undefined;
    const file = {
      path: searchParams.get("path") ?? "",
      operation: method === "POST" ? "write" : "read",
      user: searchParams.get("username") ?? "",
      expiration,
    } as const;
    for (const holder of [holderOf(sandbox), root]) {
      if (holder === undefined) continue;
      const token = (await tokens.current(sandbox, holder)).find((text) => isSignature(signature, file, text));
      if (token === undefined) continue;
      const isOver = expiration !== undefined && !(Number(expiration) * 1000 >= clock.now());
      if (isOver || (expiration !== undefined && !EXPIRATION.test(expiration)))
        throw new HttpError(401, "the signature has expired");
      return await tokens.read(sandbox, token);
    }
    throw new HttpError(401, "the signature is not valid for this file of this sandbox");
  }

  return async (request: Request, context: Pick<RequestContext, "peerOf">): Promise<Caller> => {
    const { headers } = request;
    const sandbox = readSandboxId(headers.get(ID_HEADER) ?? "");
    const { tenantId: tenant, workloadRef: workload } = sandbox ?? {};
    (request as Partial<RoutedRequest>).audit?.about({ tenant, workload });
    // Without a key tokens and signatures prove nothing, so a page of another site could make them.
    if (authenticate === undefined) checkPage(request);
    const token = headers.get("x-access-token");
    if (token !== null && token !== "") {
      const actor = sandbox && (await tokens.read(sandbox, token));
      if (actor === undefined)
        throw new HttpError(401, "the access token is not valid for this sandbox: connect to the sandbox again");
      return admitted(actor);
    }
    const hasKey = headers.has("x-api-key") || BEARER.test(headers.get("authorization") ?? "");
    if (authenticate !== undefined && hasKey) return await withApiKeyHeader(authenticate)(request, context);
    const actor = sandbox && (await signer(request, sandbox));
    if (actor !== undefined) return admitted(actor);
    if (authenticate !== undefined)
      throw new HttpError(401, "missing access token: send the header X-Access-Token, or X-API-KEY with a key");
    return rootCaller;
  };
}
