import { type HostMeaning, type HostTarget, readHostLabel } from "../../../crds/host-name.ts";
import { isObjectName, isTenantId } from "../../../crds/names.ts";
import type { RequestHead } from "../http/message-head.ts";

type DerivedHost = Extract<HostMeaning, { kind: "derived" }>;

/** What the host and path of a request address. */
export type Address = HostAddress | PathAddress;

interface HostAddress {
  readonly form: "host";
  /** Undefined if the label is derived. */
  readonly instance: HostTarget | undefined;
  readonly label: string;
  /** Used to look up the instance of a derived label. */
  readonly derived: DerivedHost | undefined;
  /** The request target for the pod. */
  readonly target: string;
}

interface PathAddress {
  readonly form: "path";
  readonly instance: HostTarget;
  readonly target: string;
  /** The part of the request's path before the pod's. */
  readonly prefix: string;
}

const PATH = /^\/t\/([^/?]+)\/([^/?]+)(.*)$/;
const PORT = /^(.*):([1-9]\d{0,4})$/;

/**
 * Reads a request's address: `<workload>[-<port>]--<tenant>.<domain>`, or `/t/<tenant>/<workload>[:<port>]/…`. The host
 * takes precedence, so that `/t/…` on a tenant's host is the pod's own path. The pod's path is the rest, byte for byte;
 * the pod resolves `..` in it.
 *
 * @returns undefined if it is neither form
 */
export function readAddress(
  { host, target }: Pick<RequestHead, "host" | "target">,
  domain: string,
): Address | undefined {
  const name = nameOf(host);
  if (name.endsWith(`.${domain}`)) {
    const label = name.slice(0, -domain.length - 1);
    const meaning = readHostLabel(label);
    if (meaning === undefined) return undefined;
    const [instance, derived] = meaning.kind === "readable" ? [meaning.target, undefined] : [undefined, meaning];
    return { form: "host", instance, label, derived, target };
  }
  return readPath(target);
}

/** The name of a `Host` field, without its port and a trailing dot. */
export function nameOf(host: string): string {
  return host.replace(/:\d+$/, "").replace(/\.$/, "");
}

function readPath(target: string): PathAddress | undefined {
  const [, first = "", second = "", rest = ""] = PATH.exec(target) ?? [];
  const tenantId = decoded(first);
  const named = decoded(second);
  const [, withPort, digits] = PORT.exec(named) ?? [];
  const workload = withPort ?? named;
  const port = digits === undefined ? undefined : Number(digits);
  // A segment that is encoded twice, or contains a slash, is not an id.
  if (!isTenantId(tenantId) || !isObjectName(workload) || (port ?? 0) > 65_535) return undefined;
  return {
    form: "path",
    instance: { workload, tenantId, ...(port !== undefined && { port }) },
    target: rest.startsWith("/") ? rest : `/${rest}`,
    prefix: `/t/${first}/${second}`,
  };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return "";
  }
}
