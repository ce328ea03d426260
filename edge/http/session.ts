import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { onAbort } from "../../crds/waits.ts";
import { type Actor, type Caller, roles, root } from "../access/actor.ts";
import type { Keys } from "../access/key-store.ts";
import type { Login } from "../access/oidc/login.ts";
import { createTokenActors, type TokenGrant } from "../access/token-actors.ts";
import { tokenRef } from "../access/token-ref.ts";
import { createDerivedKey } from "./derived-key.ts";
import type { SocketListener } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";
import { hostOf } from "./page-check.ts";

/** Browser sessions: signed cookies that every replica with the same key can verify without storing them. */
export interface Sessions {
  /**
   * Makes a session: the `Set-Cookie` header, and its end in milliseconds since the epoch.
   *
   * @param options.isSecure whether browsers reach the edge by HTTPS. @default as the request says
   * @throws HttpError 403 for a person with more tenants than fit into a cookie
   */
  issue(
    request: Request,
    actor: Actor,
    options?: { isSecure?: boolean },
  ): Promise<{ cookie: string; expiresAt: number }>;
  /**
   * The `Set-Cookie` header that removes the session from the browser. The cookie itself stays valid until it expires.
   */
  clear(request: Request): string;
  /**
   * Who has the request's session, and when it ends; undefined without a valid one.
   *
   * @throws HttpError 403 if there is one, and a page other than the edge's own may have sent it; 503 while the keys are
   * not known
   */
  find(request: Request): Promise<Required<Caller> | undefined>;
  /** @throws HttpError 403 if a page other than the edge's own sent the request; programs pass */
  refuseOtherPages(request: Request): void;
  /** Ends the timers of people's sessions. */
  close(): void;
}

/** The cookie's name. */
export const SESSION_COOKIE = "tenancy-session";

const LIFETIME_MS = 12 * 3_600_000;
/** `v1`: of TENANCY_API_KEY. `v2`: names another key. `v3`: says who a person is, and what that person may do. */
const TOKEN = /^((?:v1|v2\.([-0-9a-z]{1,63}))\.([0-9a-z]{8,9})\.[\w-]{22})\.([\w-]{43})$/;
const PERSON_TOKEN = /^(v3\.([\w-]{1,3600})\.([0-9a-z]{8,9})\.[\w-]{22})\.([\w-]{43})$/;
/** Browsers store cookies of 4096 bytes. */
const MAX_PERSON = 3600;
const personSchema = v.pipe(
  v.string(),
  v.parseJson(),
  v.strictObject({
    id: v.string(),
    role: v.picklist(roles),
    tenants: v.optional(v.array(v.string())),
    /** `settings` of the login. */
    of: v.string(),
  }),
);
/** A cookie that was verified stays valid; only its end is waited for. */
const RECHECK_MS = 3_600_000;
const reading = new Set(["GET", "HEAD"]);

/**
 * @param options.apiKey source of the signing key, so that a changed key ends every session
 * @param options.origins TENANCY_CORS_ORIGIN; those named one by one count as the edge's own, since a proxy may have
 * replaced `Host`
 * @param options.keys a session of another key ends with that key, and with a change of it. @default there are none
 * @param options.login a session of a person ends with a change of its settings. @default people have none
 * @param options.lifetimeMs from the login; nothing extends it @default 12 hours
 */
export function createSessions(options: {
  apiKey: string;
  origins: ReadonlySet<string>;
  keys?: Pick<Keys, "actorWithRef"> | undefined;
  login?: Pick<Login, "settings"> | undefined;
  lifetimeMs?: number;
  clock?: Clock;
}): Sessions {
  const { apiKey, origins, keys, login, lifetimeMs = LIFETIME_MS, clock = systemClock } = options;
  const signingKey = createDerivedKey(apiKey, "tenancy dashboard session v1");

  async function sign(text: string): Promise<Buffer> {
    return createHmac("sha256", await signingKey())
      .update(text)
      .digest();
  }

  const people = createTokenActors({ verify: verifyPerson, recheckMs: RECHECK_MS, clock });

  async function verifyPerson(token: string): Promise<TokenGrant> {
    const [, text, content = "", expires = "", mac = ""] = PERSON_TOKEN.exec(token) ?? [];
    const isSigned = text !== undefined && timingSafeEqual(await sign(text), Buffer.from(mac, "base64url"));
    const endsAt = Number.parseInt(expires, 36);
    if (!isSigned || login === undefined || endsAt <= clock.now()) throw ended();
    const read = v.safeParse(personSchema, Buffer.from(content, "base64url").toString("utf8"));
    // By a later version, or with other settings.
    if (!read.success || read.output.of !== login.settings) throw ended();
    const { id, role, tenants } = read.output;
    const person = { kind: "person", id, role, tenants } as const;
    return { ...person, endsAt, ref: tokenRef(person, { settings: login.settings, endsAt }) };
  }

  async function callerOfPerson(token: string): Promise<Required<Caller> | undefined> {
    try {
      const actor = await people.actorOf(token);
      return { actor, sessionEndsAt: actor.endsAt ?? 0 };
    } catch (error) {
      if (error instanceof HttpError && error.status === 401) return undefined;
      throw error;
    }
  }

  /** The text of a session without its end. */
  function startOf(actor: Actor): string {
    if (actor === root) return "v1";
    if (actor.kind !== "person") return `v2.${actor.ref}`;
    const { id, role, tenants } = actor;
    const content = JSON.stringify({ id, role, ...(tenants && { tenants }), of: login?.settings });
    const text = Buffer.from(content).toString("base64url");
    if (text.length > MAX_PERSON)
      throw new HttpError(
        403,
        "you reach more tenants than fit into the session of a browser; call the API with a token",
      );
    return `v3.${text}`;
  }

  async function readToken(token: string): Promise<Required<Caller> | undefined> {
    if (token.startsWith("v3.")) return await callerOfPerson(token);
    const [, text, ref, expires, mac] = TOKEN.exec(token) ?? [];
    if (text === undefined || expires === undefined || mac === undefined) return undefined;
    if (!timingSafeEqual(await sign(text), Buffer.from(mac, "base64url"))) return undefined;
    const sessionEndsAt = Number.parseInt(expires, 36);
    if (sessionEndsAt <= clock.now()) return undefined;
    const actor = ref === undefined ? root : keys?.actorWithRef(ref);
    return actor && { actor, sessionEndsAt };
  }

  return {
    async issue(request, actor, { isSecure } = {}) {
      const now = clock.now();
      const expiresAt = Math.min(now + lifetimeMs, actor.endsAt ?? Number.POSITIVE_INFINITY);
      const text = `${startOf(actor)}.${expiresAt.toString(36)}.${randomBytes(16).toString("base64url")}`;
      const token = `${text}.${(await sign(text)).toString("base64url")}`;
      const maxAge = Math.ceil((expiresAt - now) / 1000);
      return { cookie: `${SESSION_COOKIE}=${token}; Max-Age=${maxAge}; ${attributes(request, isSecure)}`, expiresAt };
    },
    clear: (request) => `${SESSION_COOKIE}=; Max-Age=0; ${attributes(request)}`,
    async find(request) {
      for (const token of tokensOf(request)) {
        const caller = await readToken(token);
        if (caller === undefined) continue;
        const page = pageOf(request, origins);
        const isReading = reading.has(request.method) && request.headers.get("upgrade") === null;
        if (page === "own" || (page === "unknown" && isReading)) return caller;
        throw notOwnPage();
      }
      return undefined;
    },
    refuseOtherPages(request) {
      if (pageOf(request, origins) === "other") throw notOwnPage();
    },
    close: people.close,
  };
}

/** How long a client may take to answer the close of its socket. */
const CLOSE_MS = 1000;

/** Closes the socket with 4401 when the session ends that opened it, or the key. What arrives later is dropped. */
export function untilCallerEnds(
  listener: SocketListener,
  { actor, sessionEndsAt }: Caller,
  clock: Clock,
): SocketListener {
  const { ended } = actor;
  let isOver = false;
  const cancels: (() => void)[] = [];
  const { onBinary } = listener;

  function leave(): void {
    for (const cancel of cancels.splice(0)) cancel();
    if (isOver) return;
    isOver = true;
    listener.onClose();
  }

  return {
    ...listener,
    onOpen(socket) {
      const end = (why: string) => () => {
        socket.close(4401, why);
        leave();
        // Some runtimes wait for long, or without a limit, for a client that does not answer.
        cancels.push(clock.after(CLOSE_MS, () => socket.cut()));
      };
      listener.onOpen(socket);
      if (isOver) return;
      cancels.push(actor.opens?.() ?? (() => undefined));
      if (ended.aborted) return end("the key has ended")();
      cancels.push(onAbort(ended, end("the key has ended")));
      if (sessionEndsAt === undefined) return;
      cancels.push(clock.after(Math.max(0, sessionEndsAt - clock.now()), end("the session has ended")));
    },
    onMessage(text) {
      if (!isOver) listener.onMessage(text);
    },
    ...(onBinary !== undefined && {
      onBinary(bytes: Uint8Array) {
        if (!isOver) onBinary.call(listener, bytes);
      },
    }),
    onClose: leave,
  };
}

/** Other ports and parent domains can set cookies of the same name; one valid cookie is enough. */
function tokensOf({ headers }: Request): string[] {
  const start = `${SESSION_COOKIE}=`;
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(start)).map((pair) => pair.slice(start.length));
}

/**
 * Which page sent a request. `SameSite=Strict` excludes other sites, but not other ports or subdomains of this one, so
 * the browser's headers are checked: `Sec-Fetch-Site`, otherwise `Origin`. Browsers omit the former on WebSockets and,
 * unless the host is this machine, on plain HTTP, and the latter on reads.
 *
 * @returns `unknown` for a program, a typed address, and a browser that reads over plain HTTP
 */
function pageOf(request: Request, origins: ReadonlySet<string>): "own" | "other" | "unknown" {
  const { headers } = request;
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin" ? "own" : site === "none" ? "unknown" : "other";
  const origin = headers.get("origin");
  if (origin === null) return "unknown";
  if (origin !== "*" && origins.has(origin)) return "own";
  const isOwn = hostOf(origin) === headers.get("host") && (!isForwardedHttps(request) || isHttps(origin));
  return isOwn ? "own" : "other";
}

function ended(): HttpError {
  return new HttpError(401, "the session has ended");
}

function notOwnPage(): HttpError {
  return new HttpError(403, "a session is valid only for the edge's own pages; programs send Authorization: Bearer");
}

/** A forged header only makes the sender's own cookie stricter. */
function attributes(
  request: Request,
  isSecure = isForwardedHttps(request) || isHttps(request.headers.get("origin") ?? ""),
): string {
  return `Path=/; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
}

function isForwardedHttps({ headers }: Request): boolean {
  return headers.get("x-forwarded-proto")?.split(",")[0]?.trim().toLowerCase() === "https";
}

function isHttps(origin: string): boolean {
  return origin.startsWith("https:");
}
