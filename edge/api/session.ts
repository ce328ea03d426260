import * as v from "valibot";
import type { Clock } from "../../crds/client/clock.ts";
import { sleep } from "../../crds/waits.ts";
import type { Actor } from "../access/actor.ts";
import type { Login } from "../access/oidc/login.ts";
import { type FindActor, WRONG_KEY } from "../http/api-key.ts";
import { HttpError } from "../http/http-error.ts";
import { readJson } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { Sessions } from "../http/session.ts";
import { type ApiRoute, bodySchema } from "./api-route.ts";

const PATH = "/api/v1/session";
const bodyOfLogin = v.strictObject({ key: v.pipe(v.string(), v.description("TENANCY_API_KEY, or another key.")) });
/** Anyone may send these bodies. */
const BODY_LIMIT_BYTES = 8192;
/**
 * How long the response to a wrong key is delayed, and for how many requests at a time; further wrong keys, and the
 * right key, are answered at once. This slows down a guesser who tries one key after the other, not one who sends many
 * in parallel; that one gains nothing, since keys in `Authorization` are not delayed either. A limit on all logins
 * would let strangers lock everyone out. The length of the key protects it from guessing.
 */
const WRONG_MS = 1000;
const MAX_WAITING = 8;

export interface SessionServices {
  /** Undefined if no key is required; there are no sessions then. */
  readonly sessions?: Sessions | undefined;
  /** Finds the actor of a key's text. */
  readonly findActor?: FindActor | undefined;
  /** The login of people at a provider. @default there is none */
  readonly login?: Pick<Login, "provider"> | undefined;
  /** Throws if the request names a host that the edge does not serve. */
  readonly checkPage: (request: Request) => void;
  readonly clock: Clock;
}

/** `GET`, `POST` and `DELETE /api/v1/session`: the session that a browser gets for the key. */
export function sessionRoutes({ sessions, findActor, login, checkPage, clock }: SessionServices): ApiRoute[] {
  let waiting = 0;

  function answer(
    session: { active: boolean; expiresAt?: number | undefined; actor?: Actor | undefined },
    cookie?: string,
  ): Response {
    const { active, expiresAt, actor } = session;
    const may = actor && { role: actor.role, ...(actor.tenants && { tenants: actor.tenants }) };
    const ends = expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() };
    const headers = { "cache-control": "no-store", ...(cookie !== undefined && { "set-cookie": cookie }) };
    const provider = login === undefined ? {} : { provider: login.provider };
    return jsonResponse({ asksForKey: sessions !== undefined, active, ...ends, ...may, ...provider }, { headers });
  }

  return [
    {
      method: "GET",
      path: PATH,
      summary: "Whether a key is required, and what the caller's session may do",
      answer: "Session",
      errors: [403],
      public: true,
      async handle(request) {
        checkPage(request);
        if (sessions === undefined) return answer({ active: true });
        const caller = await sessions.find(request);
        return answer({ active: caller !== undefined, expiresAt: caller?.sessionEndsAt, actor: caller?.actor });
      },
    },
    {
      method: "POST",
      path: PATH,
      summary: "Exchange the key for a session cookie",
      description:
        "The cookie is HttpOnly and SameSite=Strict, lasts 12 hours and replaces the key for the edge's own page: writes and WebSockets must prove by `Sec-Fetch-Site` or `Origin` that they come from it. Programs send the key itself.",
      body: bodySchema(bodyOfLogin),
      answer: "Session",
      errors: [401, 403, 404, 408, 413],
      public: true,
      async handle(request) {
        checkPage(request);
        if (sessions === undefined || findActor === undefined)
          throw new HttpError(404, "this server requires no key, so there are no sessions");
        sessions.refuseOtherPages(request);
        const { key } = await readJson(request, bodyOfLogin, { limit: BODY_LIMIT_BYTES });
        const actor = findActor(key);
        if (actor === undefined) {
          if (waiting < MAX_WAITING) {
            waiting += 1;
            // The delay continues if the caller disconnects, who would otherwise try the next key at once.
            await sleep(WRONG_MS, { clock });
            waiting -= 1;
          }
          throw new HttpError(401, WRONG_KEY);
        }
        request.audit?.by(actor);
        const { cookie, expiresAt } = await sessions.issue(request, actor);
        return answer({ active: true, expiresAt, actor }, cookie);
      },
    },
    {
      method: "DELETE",
      path: PATH,
      summary: "Delete the browser's session cookie",
      description:
        "The server stores no sessions: a copy of the cookie stays valid until it expires, or until the key changes.",
      answer: "Session",
      errors: [403],
      public: true,
      async handle(request) {
        checkPage(request);
        if (sessions === undefined) return answer({ active: true });
        sessions.refuseOtherPages(request);
        // A session that has ended, or cannot be checked now, is left as well.
        const caller = await sessions.find(request).catch(() => undefined);
        if (caller !== undefined) request.audit?.by(caller.actor);
        return answer({ active: false }, sessions.clear(request));
      },
    },
  ];
}
