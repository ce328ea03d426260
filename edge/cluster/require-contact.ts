import { HttpError } from "../http/http-error.ts";

/** @throws HttpError 503 where what the watches know may be old: at the start, and while the cluster is out of reach */
export function requireContact(...kinds: readonly { inContact(): boolean }[]): void {
  if (kinds.every((kind) => kind.inContact())) return;
  throw new HttpError(503, "no current view of the cluster (starting up, or it cannot be reached); try again shortly", {
    headers: { "retry-after": "1" },
  });
}
