import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { onAbort } from "../../crds/waits.ts";
import { type Actor, type Caller, root } from "../access/actor.ts";
import type { Keys } from "../access/key-store.ts";
import { createDerivedKey } from "./derived-key.ts";
import type { SocketListener } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";
import { hostOf } from "./page-check.ts";

/** Browser sessions: signed cookies that every replica with the same key can verify without storing them. */
export interface Sessions {
  /** Makes a session: the `Set-Cookie` header, and its end in milliseconds since the epoch. */
  issue(request: Request, actor: Actor): Promise<{ cookie: string; expiresAt: number }>;
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
}

/** The cookie's name. */
export const SESSION_COOKIE = "tenancy-session";

const LIFETIME_MS = 12 * 3_600_000;
/** `v1` is a session of TENANCY_API_KEY; `v2` names another key. */
const TOKEN = /^((?:v1|v2\.([-0-9a-z]{1,63}))\.([0-9a-z]{8,9})\.[\w-]{22})\.([\w-]{43})$/;
const reading = new Set(["GET", "HEAD"]);

/**
 * @param options.apiKey source of the signing key, so that a changed key ends every session
 * @param options.origins TENANCY_CORS_ORIGIN; those named one by one count as the edge's own, since a proxy may have
 * replaced `Host`
 * @param options.keys a session of another key ends with that key, and with a change of it. @default there are none
 * @param options.lifetimeMs from the login; nothing extends it @default 12 hours
 */
export function createSessions(options: {
  apiKey: string;
  origins: ReadonlySet<string>;
  keys?: Pick<Keys, "actorWithRef"> | undefined;
  lifetimeMs?: number;
  clock?: Clock;
}): Sessions {
  const { apiKey, origins, keys, lifetimeMs = LIFETIME_MS, clock = systemClock } = options;
  const signingKey = createDerivedKey(apiKey, "tenancy dashboard session v1");

  async function sign(text: string): Promise<Buffer> {
    return createHmac("sha256", await signingKey())
      .update(text)
      .digest();
  }

  async function readToken(token: string): Promise<Required<Caller> | undefined> {
    const [, text, ref, expires, mac] = TOKEN.exec(token) ?? [];
    if (text === undefined || expires === undefined || mac === undefined) return undefined;
    if (!timingSafeEqual(await sign(text), Buffer.from(mac, "base64url"))) return undefined;
    const sessionEndsAt = Number.parseInt(expires, 36);
    if (sessionEndsAt <= clock.now()) return undefined;
    const actor = ref === undefined ? root : keys?.actorWithRef(ref);
    return actor && { actor, sessionEndsAt };
  }

  return {
    async issue(request, actor) {
      const expiresAt = clock.now() + lifetimeMs;
      const text = `${actor === root ? "v1" : `v2.${actor.ref}`}.${expiresAt.toString(36)}.${randomBytes(16).toString("base64url")}`;
      const token = `${text}.${(await sign(text)).toString("base64url")}`;
      const maxAge = Math.ceil(lifetimeMs / 1000);
      return { cookie: `${SESSION_COOKIE}=${token}; Max-Age=${maxAge}; ${attributes(request)}`, expiresAt };
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
  };
}

/** How long a client may take to answer the close of its socket. */
const CLOSE_MS = 1000;

/** Closes the socket with 4401 when the session ends that opened it, or the key. What arrives later is dropped. */
export function untilCallerEnds(
  listener: SocketListener,
  { actor: { ended }, sessionEndsAt }: Caller,
  clock: Clock,
): SocketListener {
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

function notOwnPage(): HttpError {
  return new HttpError(403, "a session is valid only for the edge's own pages; programs send Authorization: Bearer");
}

/** A forged header only makes the sender's own cookie stricter. */
function attributes(request: Request): string {
  const isSecure = isForwardedHttps(request) || isHttps(request.headers.get("origin") ?? "");
  return `Path=/; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
}

function isForwardedHttps({ headers }: Request): boolean {
  return headers.get("x-forwarded-proto")?.split(",")[0]?.trim().toLowerCase() === "https";
}

function isHttps(origin: string): boolean {
  return origin.startsWith("https:");
}
