import { lookup } from "node:dns";
import { Agent, type IncomingHttpHeaders } from "node:http";
import { Agent as SecureAgent } from "node:https";
import { isIP, type LookupFunction, type Socket } from "node:net";
import { createSecureContext, rootCertificates } from "node:tls";
import { NetworkError } from "../../crds/client/api-error.ts";
import type { Clock } from "../../crds/client/clock.ts";
import { BodyTooLargeError, readBody, roundTrip } from "../../crds/client/round-trip.ts";
import { inRanges, metadataRanges } from "../cluster/address-ranges.ts";
import { RegistryError } from "./registry-error.ts";
import type { RegistrySettings } from "./registry-settings.ts";

export interface GetRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** What the answer may have. */
  readonly mostBytes: number;
}

export interface GetAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Sends one GET, and follows no redirect. @throws RegistryError when there is no whole answer */
export type Get = (url: URL, request: GetRequest) => Promise<GetAnswer>;

export interface GuardOptions {
  /** The registry: scheme, host and port. */
  readonly registry: URL;
  readonly settings: Pick<RegistrySettings, "authorities" | "isInsecure"> | undefined;
  /** Ranges beside those of metadata services, that only the registry's own host may be in. */
  readonly closed: readonly string[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The maximum delay of a timer: the signal is the time limit. */
const NEVER_MS = 2 ** 31 - 1;

/**
 * Makes the GETs of one read. A registry names further hosts, for tokens and for content: none of them may be in a
 * closed range, none is asked by plain HTTP unless the registry is, and a metadata service is never asked.
 */
export function createGuardedGet({ registry, settings, closed, clock, signal }: GuardOptions): Get {
  const usedSockets = new WeakSet<Socket>();
  const { authorities = [], isInsecure = false } = settings ?? {};
  const tls = {
    rejectUnauthorized: !isInsecure,
    // Once a read, not once a request: to parse the public authorities takes tens of milliseconds.
    ...(authorities.length > 0 && {
      secureContext: createSecureContext({ ca: [...rootCertificates, ...authorities] }),
    }),
  };

  return async (url, { headers, mostBytes }) => {
    const secure = url.protocol === "https:";
    if (!secure && (url.protocol !== "http:" || registry.protocol !== "http:")) {
      throw new RegistryError("RegistryUnreachable", `${registry.host} names ${url.origin}, which is not HTTPS`);
    }
    const isClosed = inRanges(url.hostname === registry.hostname ? metadataRanges : [...metadataRanges, ...closed]);
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    if (isIP(host) !== 0 && isClosed(host)) throw closedAddress(host);
    const connection = { keepAlive: false, lookup: guardedLookup(isClosed) };
    try {
      return await roundTrip(
        {
          ...{ secure, host, port: url.port === "" ? (secure ? 443 : 80) : Number(url.port) },
          agent: secure ? new SecureAgent({ ...connection, ...tls }) : new Agent(connection),
          ...{ method: "GET", path: url.pathname + url.search },
          headers: { ...headers, "accept-encoding": "identity", "user-agent": "tenancy-operator" },
          ...{ timeoutMs: NEVER_MS, signal, clock, usedSockets },
        },
        async (response) => ({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: await readBody(response, mostBytes),
        }),
      );
    } catch (error) {
      if (!(error instanceof NetworkError)) throw error;
      const { cause, message } = error;
      if (cause instanceof RegistryError) throw cause;
      const reason = cause instanceof BodyTooLargeError ? "ImageUnreadable" : "RegistryUnreachable";
      throw new RegistryError(reason, message, { cause });
    }
  };
}

/** Resolves a name without the addresses that are closed, so that what was checked is what is connected to. */
function guardedLookup(isClosed: (address: string) => boolean): LookupFunction {
  return (name, options, callback) => {
    lookup(name, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, []);
      const open = found.filter(({ address }) => !isClosed(address));
      const [first] = open;
      if (first === undefined) callback(closedAddress(name), []);
      else if (options.all === true) callback(null, open);
      else callback(null, first.address, first.family);
    });
  };
}

function closedAddress(host: string): RegistryError {
  return new RegistryError("RegistryUnreachable", `${host} is at an address that the operator never asks`);
}
