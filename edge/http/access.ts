import { type AdmitActor, countCallers } from "../access/key-rates.ts";
import type { Keys } from "../access/key-store.ts";
import type { Login } from "../access/oidc/login.ts";
import type { Tokens } from "../access/tokens.ts";
import type { EdgeConfig } from "../config.ts";
import { createApiKeyCheck, createFindActor, createIsKey, type FindActor } from "./api-key.ts";
import type { ClientAddress } from "./client-address.ts";
import { createPageCheck, type PageCheck } from "./page-check.ts";
import { createSessions, type Sessions } from "./session.ts";

/** Who may call the edge, as its configuration says. */
export interface Access {
  /** Throws where a page of another site made the request. */
  readonly checkPage: PageCheck;
  /** Undefined where no key is set. */
  readonly sessions: Sessions | undefined;
  /** The login of people at a provider. Undefined where there is none. */
  readonly login: Login | undefined;
  /** Whether a text is TENANCY_API_KEY. Undefined where it is not set. */
  readonly isKey: ReturnType<typeof createIsKey> | undefined;
  /** Finds the actor of a key's text. Undefined where no key is set. */
  readonly findActor: FindActor | undefined;
  readonly authenticate: ReturnType<typeof createApiKeyCheck> | undefined;
  readonly asksForKey: boolean;
  /** Whether `/ws` asks for the key too. */
  readonly requireKey: boolean;
  /** Whether a key, or this machine alone, keeps strangers out. */
  readonly isClosed: boolean;
}

/** @param options.sessionMs how long a browser's session lasts. @default 12 hours */
export function createAccess({
  config: { apiKey, corsOrigins: origins, localOnly, wsRequireKey },
  keys,
  tokens,
  addressOf,
  admit = () => undefined,
  sessionMs,
}: {
  config: Pick<EdgeConfig, "apiKey" | "corsOrigins" | "localOnly" | "wsRequireKey">;
  /** @default none but TENANCY_API_KEY */
  keys?: Keys | undefined;
  /** Tokens that others issue. @default none */
  tokens?: Tokens | undefined;
  /** @default the address of the connection */
  addressOf?: ClientAddress;
  /** Counts the requests of keys. @default without a limit */
  admit?: AdmitActor;
  sessionMs?: number | undefined;
}): Access {
  const lifetime = sessionMs === undefined ? {} : { lifetimeMs: sessionMs };
  const login = tokens?.login;
  const sessions = apiKey === undefined ? undefined : createSessions({ apiKey, origins, keys, login, ...lifetime });
  const findActor = apiKey === undefined ? undefined : createFindActor(apiKey, keys);
  return {
    checkPage: createPageCheck({ localOnly, origins }),
    sessions,
    login,
    isKey: apiKey === undefined ? undefined : createIsKey(apiKey),
    findActor,
    authenticate: findActor && countCallers(createApiKeyCheck(findActor, sessions, tokens, addressOf), admit),
    asksForKey: apiKey !== undefined,
    requireKey: wsRequireKey,
    isClosed: apiKey !== undefined || localOnly,
  };
}
