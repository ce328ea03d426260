import { objectName } from "./names.ts";

/** What a host name of the front door leads to. */
export interface HostTarget {
  readonly workload: string;
  readonly tenantId: string;
  /** A port of the workload other than its first. */
  readonly port?: number;
}

/** What a host name says: its target, or by which digits the target has to be looked up. */
export type HostMeaning =
  | { readonly kind: "readable"; readonly target: HostTarget }
  | { readonly kind: "derived"; readonly digits: string; readonly port?: number };

const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
/** What no readable label ends in. */
const HASHED = /--[0-9a-f]{24}$/;
const DERIVED = /^at([1-9]\d{0,4})?-(?:.*-)?-([0-9a-f]{24})$/;
const PORT = /^(.+)-(\d{1,5})$/;
const MAX_LABEL = 63;

/**
 * The first label of a target's host name is `<workload>--<tenant>` or `<workload>-<port>--<tenant>`, where that is a
 * legal label which {@link readHostLabel} reads back as the same target; else one that is derived: `at[<port>]-<some of
 * workload and tenant>--<24 digits>`, with a hash of workload and tenant alone.
 */
export function hostLabel(target: HostTarget): string {
  const { workload, tenantId, port } = target;
  const readable = `${workload}${port === undefined ? "" : `-${port}`}--${tenantId}`;
  if (isReadable(readable, target)) return readable;
  return objectName({ prefix: `at${port ?? ""}`, parts: [workload, tenantId], hashed: true, unique: true });
}

/** The digits in derived labels of an instance, the same at all ports; undefined where it has none of these. */
export function derivedDigits({ workload, tenantId }: Omit<HostTarget, "port">): string | undefined {
  // What can be read with the longest port, and without one, can be with any.
  for (const port of [{}, { port: 65_535 }]) {
    const [, , digits] = DERIVED.exec(hostLabel({ workload, tenantId, ...port })) ?? [];
    if (digits !== undefined) return digits;
  }
  return undefined;
}

/** Reads a label in lower case; undefined where no target has it. */
export function readHostLabel(label: string): HostMeaning | undefined {
  if (label.length > MAX_LABEL || !LABEL.test(label)) return undefined;
  if (HASHED.test(label)) return readDerived(label);
  const border = label.indexOf("--");
  if (border === -1) return undefined;
  const left = label.slice(0, border);
  const tenantId = label.slice(border + 2);
  if (!LABEL.test(left) || !LABEL.test(tenantId)) return undefined;
  const [, workload, digits] = PORT.exec(left) ?? [];
  const port = digits === undefined ? undefined : Number(digits);
  const target = port === undefined ? { workload: left, tenantId } : { workload: workload ?? "", tenantId, port };
  return isReadable(label, target) ? { kind: "readable", target } : undefined;
}

function readDerived(label: string): HostMeaning | undefined {
  const [, port, digits] = DERIVED.exec(label) ?? [];
  return digits === undefined
    ? undefined
    : { kind: "derived", digits, ...(port !== undefined && { port: Number(port) }) };
}

function isReadable(label: string, { workload, tenantId, port }: HostTarget): boolean {
  return (
    label.length <= MAX_LABEL &&
    LABEL.test(workload) &&
    LABEL.test(tenantId) &&
    !workload.includes("--") &&
    // `web-80` is the port 80 of `web`.
    !PORT.test(workload) &&
    (port === undefined || (port >= 1 && port <= 65_535 && label.startsWith(`${workload}-${port}--`))) &&
    !HASHED.test(label) &&
    // Browsers decode what begins like this (https://www.rfc-editor.org/rfc/rfc5890#section-2.3.2.1).
    !label.startsWith("xn--")
  );
}
