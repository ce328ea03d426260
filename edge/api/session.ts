import * as v from "valibot";
import type { Clock } from "../../crds/client/clock.ts";
import { sleep } from "../../crds/waits.ts";
import { HttpError } from "../http/http-error.ts";
import { readJson } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { Sessions } from "../http/session.ts";
import { type ApiRoute, bodySchema } from "./api-route.ts";

const PATH = "/api/v1/session";
const bodyOfLogin = v.strictObject({ key: v.string() });
/** Strangers send these bodies. */
const BODY_LIMIT_BYTES = 8192;
/**
 * How long a wrong key waits for its answer, and how many do at a time; the others, and the right key, are answered at
 * once. That slows down a guesser who tries one key after the other, not one who sends many together. The latter loses
 * nothing by it, as no key in `Authorization` waits either; and a limit that held for the right key too would let
 * strangers keep everybody out of the login. What keeps the key from being guessed is its length.
 */
const WRONG_MS = 1000;
const MAX_WAITING = 8;

/** What the routes of the session work with. */
export interface SessionServices {
  /** Undefined: no key is asked for, and there are no sessions. */
  readonly sessions?: Sessions | undefined;
  /** Whether a text is the key. */
  readonly isKey?: ((text: string) => boolean) | undefined;
  /** Throws where the request names another host than the edge answers for. */
  readonly checkPage: (request: Request) => void;
  readonly clock: Clock;
}

/** `GET`, `POST` and `DELETE /api/v1/session`: what a browser gets for the key. */
export function sessionRoutes({ sessions, isKey, checkPage, clock }: SessionServices): ApiRoute[] {
  let waiting = 0;

  function answer(session: { active: boolean; expiresAt?: number | undefined }, cookie?: string): Response {
    const { active, expiresAt } = session;
    const ends = expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() };
    const headers = { "cache-control": "no-store", ...(cookie !== undefined && { "set-cookie": cookie }) };
    return jsonResponse({ asksForKey: sessions !== undefined, active, ...ends }, { headers });
  }

  return [
    {
      method: "GET",
      path: PATH,
      summary: "Whether a key is asked for, and whether the caller has a session",
      answer: "Session",
      errors: [403],
      public: true,
      async handle(request) {
        checkPage(request);
        if (sessions === undefined) return answer({ active: true });
        const expiresAt = await sessions.endOf(request);
        return answer({ active: expiresAt !== undefined, expiresAt });
      },
    },
    {
      method: "POST",
      path: PATH,
      summary: "Give the key once, for a session cookie",
      description:
        "The cookie is HttpOnly and SameSite=Strict, lasts 12 hours and stands for the key where the edge's own page sends it: what writes, and WebSockets, have to show by `Sec-Fetch-Site` or `Origin` that it does. Programs send the key itself.",
      body: bodySchema(bodyOfLogin),
      answer: "Session",
      errors: [401, 403, 404, 408, 413],
      public: true,
      async handle(request) {
        checkPage(request);
        if (sessions === undefined || isKey === undefined)
          throw new HttpError(404, "this server asks for no key, so there are no sessions");
        sessions.refuseOtherPages(request);
        const { key } = await readJson(request, bodyOfLogin, { limit: BODY_LIMIT_BYTES });
        if (!isKey(key)) {
          if (waiting < MAX_WAITING) {
            waiting += 1;
            // To its end also when the caller leaves, who would try the next key at once.
            await sleep(WRONG_MS, { clock });
            waiting -= 1;
          }
          throw new HttpError(401, "wrong API key: it is not the TENANCY_API_KEY of this server");
        }
        const { cookie, expiresAt } = await sessions.issue(request);
        return answer({ active: true, expiresAt }, cookie);
      },
    },
    {
      method: "DELETE",
      path: PATH,
      summary: "Make the browser forget its session",
      description:
        "Nothing is kept of sessions: a copy of the cookie stays valid until its end, or until the key changes.",
      answer: "Session",
      errors: [403],
      public: true,
      handle(request) {
        checkPage(request);
        if (sessions === undefined) return answer({ active: true });
        sessions.refuseOtherPages(request);
        return answer({ active: false }, sessions.clear(request));
      },
    },
  ];
}
