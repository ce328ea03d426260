import { type HostMeaning, type HostTarget, readHostLabel } from "../../../crds/host-name.ts";
import { isObjectName, isTenantId } from "../../../crds/names.ts";
import type { RequestHead } from "../http/message-head.ts";

type DerivedHost = Extract<HostMeaning, { kind: "derived" }>;

/** What a request's host and path say of where it is for. */
export type Address = HostAddress | PathAddress;

interface HostAddress {
  readonly form: "host";
  /** Undefined where the label is derived. */
  readonly instance: HostTarget | undefined;
  readonly label: string;
  /** By which the instance of a derived label is looked up. */
  readonly derived: DerivedHost | undefined;
  /** What the pod is asked for. */
  readonly target: string;
}

interface PathAddress {
  readonly form: "path";
  readonly instance: HostTarget;
  readonly target: string;
  /** What the request's path has before the pod's. */
  readonly prefix: string;
}

const PATH = /^\/t\/([^/?]+)\/([^/?]+)(.*)$/;
const PORT = /^(.*):([1-9]\d{0,4})$/;

/**
 * Reads a request's address: `<workload>[-<port>]--<tenant>.<domain>`, else `/t/<tenant>/<workload>[:<port>]/…`. The
 * host comes first, so that `/t/…` on a tenant's host is the pod's own path. The pod's path is what follows, byte for
 * byte: `..` in it is the pod's to resolve.
 *
 * @returns undefined where it is neither
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

/** The name of a `Host` field, without its port and the dot of a whole name. */
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
  // What is encoded twice, or holds a slash, is no id.
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
