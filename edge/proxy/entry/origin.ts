import { BlockList, isIP } from "node:net";
import type { Origin } from "../http/forward-head.ts";
import { type Field, valuesOf } from "../http/message-head.ts";

/** A range of addresses, such as `10.0.0.0/8`. */
export interface Network {
  readonly address: string;
  readonly prefix: number;
  readonly family: "ipv4" | "ipv6";
}

/** What a request says about its origin, as far as it is trusted. */
export interface ReadOrigin extends Omit<Origin, "requestId"> {
  /** As set by a load balancer. */
  readonly requestId: string | undefined;
}

/** Makes a reader of request origins for each connection, by the address of its peer. */
export type OriginReader = (peer: string) => (fields: readonly Field[]) => ReadOrigin;

const NETWORK = /^([0-9a-f.:]+)(?:\/(\d{1,3}))?$/i;
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;
/** Some load balancers add the port. */
const WITH_PORT = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/;
const REQUEST_ID = /^[\w.:=+/@-]{1,128}$/;
/** Some use the scheme of WebSocket URLs. */
const SCHEMES = new Map([
  ["http", "http"],
  ["ws", "http"],
  ["https", "https"],
  ["wss", "https"],
] as const) as ReadonlyMap<string, "http" | "https">;

/** Parses `<address>/<prefix>`, or one address; otherwise undefined. */
export function parseNetwork(text: string): Network | undefined {
  const [, address = "", digits] = NETWORK.exec(text) ?? [];
  const kind = isIP(address);
  const longest = kind === 4 ? 32 : 128;
  const prefix = digits === undefined ? longest : Number(digits);
  // An IPv4 address is matched as IPv4, however the socket shows it.
  if (kind === 0 || prefix > longest || isIP(plainAddress(address)) !== kind) return undefined;
  return { address, prefix, family: kind === 4 ? "ipv4" : "ipv6" };
}

/**
 * Returns a reader of request origins. `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Request-Id` are trusted only from
 * peers in one of the networks.
 *
 * @param options.scheme default without a load balancer's statement
 */
export function createOriginReader(options: { trusted: readonly Network[]; scheme: "http" | "https" }): OriginReader {
  const { trusted, scheme } = options;
  const networks = new BlockList();
  for (const { address, prefix, family } of trusted) networks.addSubnet(address, prefix, family);
  const isTrusted = (address: string): boolean => networks.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");

  /** From the last entry, added by the peer, to the first that none of our load balancers vouches for. */
  function clientOf(peer: string, entries: readonly string[]): string {
    let client = peer;
    for (let at = entries.length - 1; at >= 0 && isTrusted(client); at -= 1) {
      const entry = (entries[at] as string).trim();
      if (entry === "") continue;
      const address = addressIn(entry);
      if (address === undefined) break;
      client = address;
    }
    return client;
  }

  return (socketAddress) => {
    const peer = plainAddress(socketAddress);
    const own: ReadOrigin = { address: peer, scheme, requestId: undefined };
    if (trusted.length === 0 || isIP(peer) === 0 || !isTrusted(peer)) return () => own;
    return (fields) => {
      const [id = "", ...more] = valuesOf(fields, "x-request-id");
      return {
        address: clientOf(peer, entriesOf(fields, "x-forwarded-for")),
        scheme: SCHEMES.get(entriesOf(fields, "x-forwarded-proto").at(-1)?.trim().toLowerCase() ?? "") ?? scheme,
        requestId: more.length === 0 && REQUEST_ID.test(id) ? id : undefined,
      };
    };
  };
}

/** The entries of a list, from all its lines. */
function entriesOf(fields: readonly Field[], name: string): string[] {
  return valuesOf(fields, name).join(",").split(",");
}

/** The address in an entry of `X-Forwarded-For`; undefined if there is none. */
function addressIn(entry: string): string | undefined {
  if (isIP(entry) !== 0) return plainAddress(entry);
  const [, six, four] = WITH_PORT.exec(entry) ?? [];
  const address = six ?? four ?? "";
  return isIP(address) === (six === undefined ? 4 : 6) ? plainAddress(address) : undefined;
}

/**
 * An address in its canonical spelling, without its zone; an IPv4 address as such even if a dual-stack socket shows it.
 */
function plainAddress(address: string): string {
  const plain = address.replace(/%.*$/, "");
  if (isIP(plain) !== 6) return plain;
  const canonical = new URL(`http://[${plain}]`).hostname.slice(1, -1);
  const [, high, low] = MAPPED.exec(canonical) ?? [];
  if (high === undefined || low === undefined) return canonical;
  const words = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return words.flatMap((word) => [word >> 8, word & 0xff]).join(".");
}
