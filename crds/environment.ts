import { isIP } from "node:net";
import * as v from "valibot";

// The message of each rule is the end of a sentence such as "TENANCY_LEASE_SECONDS must be …". `environmentProblems`
// adds the rest.

/**
 * The name of a namespace, https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names.
 */
export const namespaceName = v.pipe(
  v.string(),
  v.regex(
    /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
    "must be the name of a namespace: at most 63 lower-case letters, digits and dashes",
  ),
);

export const listenAddress = v.pipe(
  v.string(),
  v.transform(parseListenAddress),
  v.custom<ListenAddress>((parsed) => parsed !== undefined, "must be host:port, such as 127.0.0.1:8080 or [::1]:8080"),
);

/** Where another program listens. */
export const serverAddress = v.pipe(
  listenAddress,
  v.check(({ port }) => port > 0, "must have the port of a listener, such as tenancy-edge:8080"),
);

/** Undefined: no listener. */
export const listenAddressOrOff = v.union(
  [
    v.pipe(
      v.literal("off"),
      v.transform(() => undefined),
    ),
    listenAddress,
  ],
  "must be host:port, such as 127.0.0.1:9090, or off",
);

/** Where something is sent. */
export const httpAddress = v.pipe(
  v.string(),
  v.check(
    isHttpAddress,
    "must be an address of http or https without a user and a password, such as http://collector:4318",
  ),
);

function isHttpAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return (protocol === "http:" || protocol === "https:") && username === "" && password === "";
}

/** A whole number in decimal digits. */
export function wholeNumber(min: number, max: number) {
  const says = `must be a whole number from ${min} to ${max}`;
  return v.pipe(
    v.string(),
    v.regex(/^[0-9]{1,9}$/, says),
    v.transform(Number),
    v.minValue(min, says),
    v.maxValue(max, says),
  );
}

const QUANTITY = /^[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$/;

/** A number of bytes. */
export const quantity = v.pipe(v.string(), v.regex(QUANTITY, "must be a quantity such as 10Gi"));

/** Whether {@link bytesOf} can read it. */
export function isQuantity(text: string): boolean {
  return QUANTITY.test(text);
}

/**
 * The bytes of a Kubernetes quantity, https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
 */
export function bytesOf(size: string): number {
  const [, digits, unit = ""] = /^(\d+)(.*)$/.exec(size) ?? [];
  const power = ["", "K", "M", "G", "T", "P"].indexOf(unit.slice(0, 1).toUpperCase());
  return Number(digits) * (unit.endsWith("i") ? 1024 : 1000) ** power;
}

/**
 * The duration of the leases of operator and edge. Both have the same limits, since one variable may be set for both.
 */
export const leaseSeconds = wholeNumber(2, 600);

/**
 * A sentence for each invalid variable: what it must be and what it is.
 *
 * @param hidden variables whose values are never shown
 */
export function environmentProblems(
  issues: readonly v.BaseIssue<unknown>[],
  { env, hidden }: { env: Readonly<Record<string, string | undefined>>; hidden: readonly string[] },
): string[] {
  const problems = new Map<string, string>();
  for (const { path, message } of issues) {
    const name = String(path?.[0]?.key);
    const is = hidden.includes(name) ? "" : `, not ${JSON.stringify(env[name])}`;
    if (!problems.has(name)) problems.set(name, `${name} ${message}${is}`);
  }
  return [...problems.values()];
}

/** The address that a server listens on. */
export interface ListenAddress {
  /** A name or an IP address, without brackets. */
  readonly hostname: string;
  /** 0 takes any free port. */
  readonly port: number;
}

const FORM = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/;

/** Reads `host:port`, with IPv6 addresses in brackets; otherwise undefined. */
function parseListenAddress(text: string): ListenAddress | undefined {
  const match = FORM.exec(text);
  const [, v6, name, digits] = match ?? [];
  const hostname = v6 ?? name;
  const port = Number(digits);
  if (hostname === undefined || port > 65_535) return undefined;
  if (v6 !== undefined && isIP(v6) !== 6) return undefined;
  // Without this check, four numbers that are not an address would be looked up as a name, and fail with a DNS error.
  if (/^[\d.]+$/.test(hostname) && isIP(hostname) !== 4) return undefined;
  return { hostname, port };
}
