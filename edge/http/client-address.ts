import { createOriginReader, type Network } from "../proxy/entry/origin.ts";

/** Finds the IP address of a request's client: of its connection, or what a trusted proxy says. */
export type ClientAddress = (request: Request, peer: string | undefined) => string | undefined;

/** @param options.trusted proxies whose `X-Forwarded-For` counts */
export function createClientAddress({ trusted }: { trusted: readonly Network[] }): ClientAddress {
  const originOf = createOriginReader({ trusted, scheme: "http" });
  return (request, peer) => {
    if (peer === undefined) return undefined;
    const forwarded = trusted.length === 0 ? null : request.headers.get("x-forwarded-for");
    return originOf(peer)(forwarded === null ? [] : [["", forwarded, "x-forwarded-for"]]).address;
  };
}
