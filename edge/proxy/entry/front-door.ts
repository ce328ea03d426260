import { type HostTarget, hostLabel } from "../../../crds/host-name.ts";
import type { Links } from "../../api/links.ts";
import type { ProxyConfig } from "../../config.ts";
import type { LinkTokens } from "./link-token.ts";
import { TOKEN_PARAMETER } from "./token-parameter.ts";

/** Address of the front door for visitors. */
export interface FrontDoor {
  /** Tenants' hosts are one label below it. */
  readonly domain: string;
  /** Undefined: the scheme's default. */
  readonly port: number | undefined;
  readonly scheme: "http" | "https";
}

/**
 * Returns a function that returns the front door's address; undefined if it is not configured.
 *
 * @param listensAt the port of this process's own listener, once there is one; visitors use it with plain HTTP
 */
export function findFrontDoor(
  { domain, scheme, listen }: Pick<ProxyConfig, "domain" | "scheme" | "listen">,
  listensAt: () => number | undefined,
): (() => FrontDoor) | undefined {
  if (domain === undefined) return undefined;
  const port = (): number | undefined => (scheme === "http" ? (listensAt() ?? listen.port) : undefined);
  return () => ({ domain: domain.name, port: domain.port ?? port(), scheme });
}

/** The domain below which E2B's SDKs find a sandbox, `<port>-<sandbox id>.<domain>`; undefined without a front door. */
export function sandboxDomain(frontDoor: (() => FrontDoor) | undefined): string | undefined {
  return frontDoor && withPort(frontDoor());
}

function withPort({ domain, port }: FrontDoor): string {
  return port === undefined ? domain : `${domain}:${port}`;
}

/** The URL of a tenant's instance, which a browser can open if the workload admits it. */
export function instanceUrl(frontDoor: FrontDoor, target: HostTarget): string {
  return `${frontDoor.scheme}://${hostLabel(target)}.${withPort(frontDoor)}/`;
}

/** Makes URLs with a token. */
export function createLinks(options: {
  frontDoor: () => FrontDoor;
  tokens: Pick<LinkTokens, "sign">;
  problem: () => string | undefined;
  maxSeconds: number;
}): Links {
  const { frontDoor, tokens, problem, maxSeconds } = options;
  return {
    maxSeconds,
    problem,
    address: (instance) => instanceUrl(frontDoor(), instance),
    create(instance, expiresAt, by) {
      const token = tokens.sign("link", { ...instance, expiresAt, ...(by !== undefined && { by }) });
      return token && `${instanceUrl(frontDoor(), instance)}?${TOKEN_PARAMETER}=${token}`;
    },
  };
}
