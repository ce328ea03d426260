import { isIP } from "node:net";

/** Where a server listens. */
export interface ListenAddress {
  /** A name or an IP address, without brackets. */
  readonly hostname: string;
  /** 0 takes any free port. */
  readonly port: number;
}

const FORM = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/;

/** Reads `host:port`, with IPv6 addresses in brackets; undefined where the text is neither. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = FORM.exec(text);
  const [, v6, name, digits] = match ?? [];
  const hostname = v6 ?? name;
  const port = Number(digits);
  if (hostname === undefined || port > 65_535) return undefined;
  if (v6 !== undefined && isIP(v6) !== 6) return undefined;
  // Four numbers that are no address would be looked up as a name, and fail with a message about DNS.
  if (/^[\d.]+$/.test(hostname) && isIP(hostname) !== 4) return undefined;
  return { hostname, port };
}
