import { UsageError } from "../command.ts";
import { type Where, whereOf } from "../where.ts";

/** A file or folder here, or in an instance. */
export type CopyPlace =
  | { readonly kind: "local"; readonly path: string }
  | { readonly kind: "instance"; readonly where: Where; readonly path: string };

/**
 * Reads `tenant/workload:path` or `instance:path`, or else a local path. A local path with a colon begins with `/` or
 * `.`.
 *
 * @throws UsageError
 */
export function copyPlaceOf(text: string): CopyPlace {
  const at = text.indexOf(":");
  if (at < 0 || /^[./]/.test(text)) return { kind: "local", path: text };
  const path = text.slice(at + 1);
  if (path === "") throw new UsageError(`Cannot copy ${JSON.stringify(text)}: write a path after the colon`);
  return { kind: "instance", where: whereOf(text.slice(0, at)), path };
}
