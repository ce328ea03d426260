import { type HostMeaning, type HostTarget, readHostLabel } from "../../../crds/host-name.ts";
import { isObjectName, isTenantId } from "../../../crds/names.ts";
import type { RequestHead } from "../http/message-head.ts";
import { readSandboxFields, readSandboxLabel, type SandboxTarget } from "./sandbox-address.ts";

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
  /** The id in an address of E2B's SDKs. */
  readonly sandbox?: string;
}

/** All tenants share its origin. */
interface PathAddress {
  readonly form: "path";
  readonly instance: HostTarget;
  readonly target: string;
  /** The part of the request's path before the pod's. Undefined where headers name the instance. */
  readonly prefix: string | undefined;
  readonly sandbox?: string;
}

const PATH = /^\/t\/([^/?]+)\/([^/?]+)(.*)$/;
const PORT = /^(.*):([1-9]\d{0,4})$/;

/**
 * Reads a request's address: `<workload>[-<port>]--<tenant>.<domain>`, or `/t/<tenant>/<workload>[:<port>]/…`. The host
 * takes precedence, so that `/t/…` on a tenant's host is the pod's own path. The pod's path is the rest, byte for byte;
 * the pod resolves `..` in it. E2B's SDKs name an instance by the host `<port>-<sandbox id>.<domain>`, or by headers at
 * a host that is not below the domain.
 *
 * @param options.hasWorkload whether a workload exists: its own address takes precedence over that of a sandbox
 * @returns undefined if it is none of these forms
 * @throws MessageError 400 if the headers contradict the host or each other
 */
export function readAddress(
  { host, target, fields }: Pick<RequestHead, "host" | "target" | "fields">,
  domain: string,
  { hasWorkload }: { hasWorkload: (name: string) => boolean },
): Address | undefined {
  const name = nameOf(host);
  if (!name.endsWith(`.${domain}`)) {
    const named = readSandboxFields(fields, undefined);
    if (named === "none") return readPath(target);
    return named && { form: "path", instance: named.instance, target, prefix: undefined, sandbox: named.id };
  }
  const label = name.slice(0, -domain.length - 1);
  const meaning = readHostLabel(label);
  const sandbox = sandboxOf(label, { meaning, hasWorkload });
  readSandboxFields(fields, { sandbox });
  if (sandbox !== undefined)
    return { form: "host", instance: sandbox.instance, label, derived: undefined, target, sandbox: sandbox.id };
  if (meaning === undefined) return undefined;
  const [instance, derived] = meaning.kind === "readable" ? [meaning.target, undefined] : [undefined, meaning];
  return { form: "host", instance, label, derived, target };
}

function sandboxOf(
  label: string,
  { meaning, hasWorkload }: { meaning: HostMeaning | undefined; hasWorkload: (name: string) => boolean },
): SandboxTarget | undefined {
  const sandbox = readSandboxLabel(label);
  if (sandbox === undefined || (meaning?.kind === "readable" && hasWorkload(meaning.target.workload))) return undefined;
  return sandbox;
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
