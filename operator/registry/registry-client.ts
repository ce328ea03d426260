import { authorize, parseChallenges } from "./authorize.ts";
import type { Get, GetAnswer } from "./guarded-get.ts";
import { RegistryError } from "./registry-error.ts";
import type { RegistryLogin } from "./registry-logins.ts";

/** Gets what is below one repository of a registry, such as `manifests/latest`. */
export type Pull = (path: string, request: { readonly accept: string; readonly mostBytes: number }) => Promise<Buffer>;

const MOST_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Pulls from one repository of a registry. The first request has no login; where the registry asks for one, each login
 * is tried, or a token without a login where there is none.
 *
 * Follows https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pull
 *
 * @param options.registry scheme, host and port
 */
export function createPull({
  registry,
  repository,
  logins,
  get,
}: {
  registry: URL;
  repository: string;
  logins: readonly RegistryLogin[];
  get: Get;
}): Pull {
  let authorization: string | undefined;

  /** Follows redirects. Only the registry gets the authorization, and only its own challenge is met. */
  async function follow(path: string, request: { accept: string; mostBytes: number }): Promise<GetAnswer> {
    let url = new URL(`/v2/${repository}/${path}`, registry);
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects += 1) {
      const isOwn = url.origin === registry.origin;
      const headers = { accept: request.accept, ...(isOwn && authorization !== undefined && { authorization }) };
      const answer = await get(url, { headers, mostBytes: request.mostBytes });
      const { location } = answer.headers;
      if (!REDIRECTS.has(answer.status) || location === undefined) {
        if (answer.status === 401 && !isOwn) throw unauthorized(`${url.host}, which ${registry.host} names,`);
        return answer;
      }
      if (!URL.canParse(location, url.href))
        throw unreadable(`${url.host} redirects to an address that cannot be read`);
      url = new URL(location, url);
    }
    throw unreadable(`${registry.host} redirects more than ${MOST_REDIRECTS} times`);
  }

  return async (path, request) => {
    let answer = await follow(path, request);
    if (answer.status === 401) {
      const challenges = parseChallenges(answer.headers["www-authenticate"]);
      for (const login of logins.length === 0 ? [undefined] : logins) {
        authorization = await authorize(challenges, { get, login, repository });
        if (authorization === undefined) continue;
        answer = await follow(path, request);
        if (answer.status !== 401 && answer.status !== 403) break;
      }
    }
    const { status, body } = answer;
    switch (status) {
      case 200:
        return body;
      case 401:
      case 403:
        throw unauthorized(registry.host);
      case 404:
        throw new RegistryError("ImageNotFound", `${registry.host} has no ${repository}, ${path}`);
      default:
        if (status === 429 || status >= 500) {
          throw new RegistryError("RegistryUnreachable", `${registry.host} answers ${status}`);
        }
        throw unreadable(`${registry.host} answers ${status}`);
    }
  };
}

function unauthorized(host: string): RegistryError {
  return new RegistryError("RegistryUnauthorized", `${host} asks for another login, or has no such image`);
}

function unreadable(message: string): RegistryError {
  return new RegistryError("ImageUnreadable", message);
}
