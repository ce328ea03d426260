import { createHash } from "node:crypto";
import { withDefaults } from "../../crds/defaults.ts";
import type { SecretReference } from "../../crds/schema/schema.ts";
import type { WorkloadSpec } from "../../crds/workload.ts";
import { type DomainPattern, parseDomainPattern } from "./domain-pattern.ts";

/** A header whose value comes from a Secret. */
export interface InjectedHeader {
  /** Letters, digits, `-`, `_` and `.` only. */
  readonly name: string;
  readonly value: SecretReference;
}

/** Headers for one domain. */
export interface Credential {
  readonly domain: DomainPattern;
  readonly headers: readonly InjectedHeader[];
}

/** The rules that the proxy enforces. All parts are checked. */
export interface EgressRules {
  /** The names that may be reached; undefined: all names, for `restricted` without an allowlist. */
  readonly allowed: readonly DomainPattern[] | undefined;
  /** Their domains may always be reached, independent of `allowed`. Each domain occurs once. */
  readonly credentials: readonly Credential[];
}

/** Whether a workload's pods need the proxy, also if its rules are invalid. */
export function needsProxy(spec: WorkloadSpec): boolean {
  const { access, allowlist, credentials } = withDefaults(spec).network;
  return access === "restricted" && allowlist.length + credentials.length > 0;
}

/** Whether a credential of the workload names the Secret. */
export function namesSecret(spec: WorkloadSpec, name: string): boolean {
  const { credentials = [] } = spec.network ?? {};
  return credentials.some(({ headers }) => headers.some(({ valueFrom }) => valueFrom.secretKeyRef.name === name));
}

/**
 * The proxy's rules for a workload; undefined if it needs no proxy.
 *
 * @throws TypeError that names the invalid part; never for a spec without {@link egressProblems}
 */
export function egressRules(spec: WorkloadSpec): EgressRules | undefined {
  if (!needsProxy(spec)) return undefined;
  const { allowlist, credentials } = withDefaults(spec).network;
  const byDomain = new Map<string, Credential>();
  for (const credential of credentials) {
    const domain = parseDomainPattern(credential.domain);
    const headers = credential.headers.map(({ name, valueFrom }) => {
      const problem = headerNameProblem(name);
      if (problem !== undefined) throw new TypeError(`Cannot set header ${JSON.stringify(name)}: it ${problem}`);
      return { name, value: checkedReference(valueFrom.secretKeyRef) };
    });
    if (byDomain.has(domain.text)) throw new TypeError(`Cannot use two credentials for ${domain.text}`);
    byDomain.set(domain.text, { domain, headers });
  }
  const allowed = new Map(allowlist.map(parseDomainPattern).map((domain) => [domain.text, domain]));
  return {
    allowed: allowlist.length === 0 ? undefined : sorted([...allowed.values()]),
    // Sorted, so that an edit which only reorders them changes nothing.
    credentials: [...byDomain.values()].sort((a, b) => (a.domain.text < b.domain.text ? -1 : 1)),
  };
}

/** The environment variable of the proxy that holds the value of a Secret's key. */
export function valueVariable(reference: SecretReference): string {
  const hash = createHash("sha256")
    .update(JSON.stringify([reference.name, reference.key]))
    .digest("hex");
  return `CREDENTIAL_${hash.slice(0, 24).toUpperCase()}`;
}

/** The file with the value of a Secret's key, relative to the settings folder. */
export function valueFile({ name, key }: SecretReference): string {
  return `values/${name}/${key}`;
}

function checkedReference({ name, key }: SecretReference): SecretReference {
  if (!/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name) || name.includes("..")) {
    throw new TypeError(`Cannot refer to Secret ${JSON.stringify(name)}: it is not a valid name of a Secret`);
  }
  if (!/^[-._a-zA-Z0-9]+$/.test(key) || key.startsWith("..") || key === ".") {
    throw new TypeError(
      `Cannot refer to key ${JSON.stringify(key)} of Secret ${name}: it is not a valid key of a Secret`,
    );
  }
  return { name, key };
}

function sorted(domains: readonly DomainPattern[]): DomainPattern[] {
  return [...domains].sort((a, b) => (a.text < b.text ? -1 : 1));
}

const NAME = /^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$/;

/**
 * Headers for framing and routing, which only the proxy sets (RFC 9110, sections 7.2 and 7.6.1).
 */
const FRAMING: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Why the proxy cannot set a header of that name, as the end of a sentence; undefined if it can. */
export function headerNameProblem(name: string): string | undefined {
  if (!NAME.test(name) || name.length > 128) {
    return "must be letters, digits, '-', '_' and '.', at most 128, with a letter or digit at both ends";
  }
  if (FRAMING.has(name.toLowerCase())) return "belongs to the connection, which the proxy controls: choose another";
  return undefined;
}
