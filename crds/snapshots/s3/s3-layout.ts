import { isObjectName, isTenantId } from "../../names.ts";
import type { SnapshotKey } from "../snapshot-key.ts";

/**
 * The names of the objects below a prefix:
 *
 * - `archives/<tenant>/<workload>/<time>-<id>.tar.gz`: an archive, which is written once and never changed,
 * - `heads/<tenant>/<workload>.json`: the head, which names the current archives,
 * - `used/<tenant>/<workload>`: an object whose time is when the key was last in use,
 * - `marked`: the mark of the store,
 * - `contexts/<workload>/<sha256>`: the context of a build,
 * - `usage/<hour>/<batch>.ndjson`: usage records; `usage/until`: up to when running sessions are recorded.
 *
 * Neither a tenant nor a workload contains a slash. The prefix of another store may be inside this one's, such as
 * `archives`. So objects with other names than these are ignored.
 */
export interface S3Layout {
  readonly prefix: string;
  readonly mark: string;
  head(key: SnapshotKey): string;
  used(key: SnapshotKey): string;
  archive(key: SnapshotKey, blob: string): string;
  /** The prefix of all heads, or of a tenant's heads. */
  heads(tenantId?: string): string;
  usedUnder(tenantId?: string): string;
  readonly archives: string;
  readonly contexts: string;
  /** The prefix of usage records. */
  readonly usage: string;
  /** The key of a head; undefined if the name is not that of a head. */
  keyOfHead(name: string): SnapshotKey | undefined;
  /** The key of an archive; undefined if the name is not that of an archive. */
  keyOfArchive(name: string): { readonly key: SnapshotKey; readonly blob: string } | undefined;
  /** Whether a build context is an incomplete upload; undefined if the name is not that of a build context. */
  contextOf(name: string): { readonly isReceived: boolean } | undefined;
}

/** The last part of an archive's name. */
export const BLOB = /^\d{8}T\d{6}Z-[0-9a-f]{16}\.tar\.gz$/;
const CONTEXT = /^(?:\.[0-9a-f]{32}|[0-9a-f]{64})$/;

/** @param given the prefix of all names, which may be empty */
export function s3Layout(given: string): S3Layout {
  const prefix = given === "" ? "" : `${given.replace(/\/+$/, "")}/`;
  const under = (tenantId: string | undefined): string => (tenantId === undefined ? "" : `${tenantId}/`);
  const archives = `${prefix}archives/`;
  const heads = `${prefix}heads/`;
  const contexts = `${prefix}contexts/`;
  return {
    ...{ prefix, archives, contexts, mark: `${prefix}marked`, usage: `${prefix}usage/` },
    head: ({ tenantId, workloadRef }) => `${heads}${tenantId}/${workloadRef}.json`,
    used: ({ tenantId, workloadRef }) => `${prefix}used/${tenantId}/${workloadRef}`,
    archive: ({ tenantId, workloadRef }, blob) => `${archives}${tenantId}/${workloadRef}/${blob}`,
    heads: (tenantId) => heads + under(tenantId),
    usedUnder: (tenantId) => `${prefix}used/${under(tenantId)}`,
    keyOfHead(name) {
      const [tenantId = "", file = "", ...more] = name.slice(heads.length).split("/");
      const workloadRef = file.replace(/\.json$/, "");
      const isOne = name.startsWith(heads) && file !== workloadRef && more.length === 0;
      return isOne && isTenantId(tenantId) && isObjectName(workloadRef) ? { tenantId, workloadRef } : undefined;
    },
    keyOfArchive(name) {
      const [tenantId = "", workloadRef = "", blob = "", ...more] = name.slice(archives.length).split("/");
      const isOne = name.startsWith(archives) && BLOB.test(blob) && more.length === 0;
      if (!isOne || !isTenantId(tenantId) || !isObjectName(workloadRef)) return undefined;
      return { key: { tenantId, workloadRef }, blob };
    },
    contextOf(name) {
      const [workload = "", file = "", ...more] = name.slice(contexts.length).split("/");
      const isOne = name.startsWith(contexts) && CONTEXT.test(file) && more.length === 0;
      return isOne && isObjectName(workload) ? { isReceived: file.startsWith(".") } : undefined;
    },
  };
}
