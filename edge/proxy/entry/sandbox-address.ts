import type { HostTarget } from "../../../crds/host-name.ts";
import { readSandboxId } from "../../e2b/sandbox-id.ts";
import { type Field, MessageError } from "../http/message-head.ts";

/** The port of E2B's daemon in a sandbox: the API answers in its place. */
export const ENVD_PORT = 49_983;

const ID = "e2b-sandbox-id";
const PORT = "e2b-sandbox-port";
/** Headers that E2B's SDKs send to a sandbox: its address and its credentials, none of which a program gets. */
export const SANDBOX_FIELDS: ReadonlySet<string> = new Set([
  ...[ID, PORT, "x-access-token", "e2b-traffic-access-token", "x-api-key"],
]);

/** A port of a sandbox, as E2B's SDKs name it. */
export interface SandboxTarget {
  readonly id: string;
  readonly instance: HostTarget & { readonly port: number };
}

/** What the headers of a request name. */
interface Named {
  readonly id: string;
  /** Undefined without a header for it. */
  readonly port: number | undefined;
}

const DIGITS = /^[1-9]\d{0,4}$/;
const LABEL = /^([1-9]\d{0,4})-([a-z0-9-]+)$/;
const MAX_LABEL = 63;
const MAX_PORT = 65_535;

/** Reads the label `<port>-<sandbox id>` of a host; undefined for another. */
export function readSandboxLabel(label: string): SandboxTarget | undefined {
  const [, digits, id] = (label.length <= MAX_LABEL ? LABEL.exec(label) : null) ?? [];
  return id === undefined ? undefined : targetOf(id, Number(digits));
}

/**
 * The sandbox of a request with the header `E2b-Sandbox-Id`, at the port in `E2b-Sandbox-Port`.
 *
 * @param host what the host names, if that is a label below the domain: the headers must agree with it
 * @returns "none" without such a header; undefined for a text that is no id
 * @throws MessageError 400
 */
export function readSandboxFields(
  fields: readonly Field[],
  host: { readonly sandbox: SandboxTarget | undefined } | undefined,
): SandboxTarget | "none" | undefined {
  const named = namedIn(fields);
  if (named === undefined) return "none";
  const { id, port } = named;
  if (host === undefined) return targetOf(id, port ?? ENVD_PORT);
  const { sandbox } = host;
  if (sandbox === undefined || sandbox.id !== id || sandbox.instance.port !== (port ?? sandbox.instance.port)) {
    throw new MessageError(
      400,
      "headers: E2b-Sandbox-Id and Host name different instances; send only one of them, or the same",
    );
  }
  return sandbox;
}

/** @throws MessageError 400 */
function namedIn(fields: readonly Field[]): Named | undefined {
  let id: string | undefined;
  let port: number | undefined;
  for (const [, value, name] of fields) {
    if (name === ID) {
      if (id !== undefined) throw new MessageError(400, "headers: more than one E2b-Sandbox-Id");
      id = value;
    } else if (name === PORT) {
      if (port !== undefined) throw new MessageError(400, "headers: more than one E2b-Sandbox-Port");
      port = DIGITS.test(value) ? Number(value) : Number.NaN;
    }
  }
  // Without an id, it is a header of the program's own.
  if (id === undefined) return undefined;
  if (port !== undefined && !(port <= MAX_PORT)) {
    throw new MessageError(400, `headers: E2b-Sandbox-Port is not a number from 1 to ${MAX_PORT}`);
  }
  return { id, port };
}

function targetOf(id: string, port: number): SandboxTarget | undefined {
  const key = readSandboxId(id);
  if (key === undefined || port > MAX_PORT) return undefined;
  return { id, instance: { workload: key.workloadRef, tenantId: key.tenantId, port } };
}
