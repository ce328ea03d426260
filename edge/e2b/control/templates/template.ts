import type { ClaimKey } from "../../../../crds/claims/claim-key.ts";
import { quote } from "../../../../crds/quote.ts";
import { versionNameRule } from "../../../../crds/snapshots/version-names.ts";
import { HttpError } from "../../../http/http-error.ts";
import { workloadNameRule } from "../../../http/parameters.ts";
import type { RoutedRequest } from "../../../http/router.ts";
import { readSandboxId, sandboxId } from "../../sandbox-id.ts";

/** What a new sandbox begins with: a workload, and perhaps a saved version of a sandbox's files. */
export interface Template {
  readonly workloadRef: string;
  readonly snapshot?: SnapshotName;
}

/** A named version of a sandbox's files. */
export interface SnapshotName {
  readonly key: ClaimKey;
  readonly name: string;
}

/** The id of a snapshot, `<sandbox>:<name>`, which is a template too. */
export function snapshotId({ key, name }: SnapshotName): string {
  return `${sandboxId(key)}:${name}`;
}

/** The snapshot that a text names; undefined for a text that is no id of one. */
export function readSnapshotId(text: string): SnapshotName | undefined {
  const [, sandbox = "", name = ""] = /^(?:[^/]*\/)?([^/:]+):([^/:]+)$/.exec(text) ?? [];
  const key = readSandboxId(sandbox);
  return key !== undefined && versionNameRule.accepts(name) ? { key, name } : undefined;
}

/** The same answer for a snapshot that does not exist and for one that the key does not reach. */
export function snapshotNotFound(snapshot: SnapshotName): HttpError {
  return new HttpError(404, `snapshot ${quote(snapshotId(snapshot))} does not exist for this key`);
}

/**
 * Reads the name of a template. A workload has no tags and no team: `team/name:tag` is `name`.
 *
 * @throws HttpError 400 for a text that is no name
 */
export function readTemplate(text: string): Template {
  const snapshot = readSnapshotId(text);
  if (snapshot !== undefined) return { workloadRef: snapshot.key.workloadRef, snapshot };
  const [, name = ""] = /^(?:[^/:]*\/)?([^/:]*)(?::[^/:]*)?$/.exec(text) ?? [];
  if (workloadNameRule.accepts(name)) return { workloadRef: name };
  throw new HttpError(400, `a template is a workload, or a snapshot: ${workloadNameRule.says}, got ${quote(text)}`);
}

/** The path parameter with a template's name; what cannot be decoded is no name. */
export function templateParam({ params: { template = "" } }: RoutedRequest): string {
  try {
    return decodeURIComponent(template);
  } catch {
    return template;
  }
}
