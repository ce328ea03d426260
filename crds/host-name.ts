import { objectName } from "./names.ts";

/** The target of a host name of the front door. */
export interface HostTarget {
  readonly workload: string;
  readonly tenantId: string;
  /** A port of the workload other than its first. */
  readonly port?: number;
}

/** The content of a host name: its target, or the digits to look the target up by. */
export type HostMeaning =
  | { readonly kind: "readable"; readonly target: HostTarget }
  | { readonly kind: "derived"; readonly digits: string; readonly port?: number };

const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
/** The end of a derived label. No readable label ends like this. */
const HASHED = /--[0-9a-f]{24}$/;
const DERIVED = /^at([1-9]\d{0,4})?-(?:.*-)?-([0-9a-f]{24})$/;
const PORT = /^(.+)-(\d{1,5})$/;
const MAX_LABEL = 63;

/**
 * The first label of a target's host name. It is `<workload>--<tenant>` or `<workload>-<port>--<tenant>` if that is a
 * legal label which {@link readHostLabel} reads back as the same target. Otherwise it is derived: `at[<port>]-<part of
 * workload and tenant>--<24 digits>`. The digits are a hash of workload and tenant only.
 */
export function hostLabel(target: HostTarget): string {
  const { workload, tenantId, port } = target;
  const readable = `${workload}${port === undefined ? "" : `-${port}`}--${tenantId}`;
  if (isReadable(readable, target)) return readable;
  return objectName({ prefix: `at${port ?? ""}`, parts: [workload, tenantId], hashed: true, unique: true });
}

/**
 * The digits in the derived labels of an instance, the same for all ports; undefined if all its labels are readable.
 */
export function derivedDigits({ workload, tenantId }: Omit<HostTarget, "port">): string | undefined {
  // If the label is readable with the longest port and without a port, it is readable with every port.
  for (const port of [{}, { port: 65_535 }]) {
    const [, , digits] = DERIVED.exec(hostLabel({ workload, tenantId, ...port })) ?? [];
    if (digits !== undefined) return digits;
  }
  return undefined;
}

/** Reads a label in lower case; undefined if no target has it. */
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
    // `web-80` is port 80 of the workload `web`.
    !PORT.test(workload) &&
    (port === undefined || (port >= 1 && port <= 65_535 && label.startsWith(`${workload}-${port}--`))) &&
    !HASHED.test(label) &&
    // Browsers decode labels that begin like this (https://www.rfc-editor.org/rfc/rfc5890#section-2.3.2.1).
    !label.startsWith("xn--")
  );
}
