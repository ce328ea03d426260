import { createHash, timingSafeEqual } from "node:crypto";
import { HttpError } from "./http-error.ts";

const BEARER = /^bearer +(\S+)$/i;
const challenge = { headers: { "www-authenticate": 'Bearer realm="tenancy"' } };

/**
 * Returns a check that throws 401 unless the request carries `Authorization: Bearer <apiKey>` (spec.md, section 5).
 *
 * Digests are compared, so neither the place of the first difference nor the key's length shows in the time it takes.
 */
export function createApiKeyCheck(apiKey: string): (request: Request) => void {
  const expected = digest(apiKey);
  return (request) => {
    const header = request.headers.get("authorization");
    if (header === null) {
      throw new HttpError(401, "missing API key: send the header Authorization: Bearer <TENANCY_API_KEY>", challenge);
    }
    const presented = BEARER.exec(header)?.[1];
    if (presented === undefined) {
      throw new HttpError(
        401,
        "unreadable Authorization header: send Authorization: Bearer <TENANCY_API_KEY>",
        challenge,
      );
    }
    if (!timingSafeEqual(digest(presented), expected)) {
      throw new HttpError(401, "wrong API key: it is not the TENANCY_API_KEY of this server", challenge);
    }
  };
}

function digest(value: string): Buffer {
  return createHash("sha256").update(value).digest();
}
