import { isObjectName, isTenantId } from "../../names.ts";
import type { SnapshotKey } from "../snapshot-key.ts";

/**
 * The names of the objects below a prefix:
 *
 * - `archives/<tenant>/<workload>/<time>-<id>.tar.gz`, each written once under a name of its own and never changed,
 * - `heads/<tenant>/<workload>.json`, which names those that count,
 * - `used/<tenant>/<workload>`, whose time says when the key was last in use, and `marked`,
 * - `contexts/<workload>/<sha256>`, of builds.
 *
 * Neither a tenant nor a workload holds a slash. Another store's prefix may be inside of this one's, such as `archives`:
 * what is in a folder and has no name that is given here is never taken for this store's.
 */
export interface S3Layout {
  readonly prefix: string;
  readonly mark: string;
  head(key: SnapshotKey): string;
  used(key: SnapshotKey): string;
  archive(key: SnapshotKey, blob: string): string;
  /** What the heads of all begin with, or a tenant's. */
  heads(tenantId?: string): string;
  usedUnder(tenantId?: string): string;
  readonly archives: string;
  readonly contexts: string;
  /** Whose head that is; undefined when it is none. */
  keyOfHead(name: string): SnapshotKey | undefined;
  /** Whose archive that is; undefined when it is none. */
  keyOfArchive(name: string): { readonly key: SnapshotKey; readonly blob: string } | undefined;
  /** Which build context that is, and whether it is still being received; undefined when it is none. */
  contextOf(name: string): { readonly isReceived: boolean } | undefined;
}

/** The last part of an archive's name. */
export const BLOB = /^\d{8}T\d{6}Z-[0-9a-f]{16}\.tar\.gz$/;
const CONTEXT = /^(?:\.[0-9a-f]{32}|[0-9a-f]{64})$/;

/** @param given what all names begin with, without a slash at the end; may be empty */
export function s3Layout(given: string): S3Layout {
  const prefix = given === "" ? "" : `${given.replace(/\/+$/, "")}/`;
  const under = (tenantId: string | undefined): string => (tenantId === undefined ? "" : `${tenantId}/`);
  const archives = `${prefix}archives/`;
  const heads = `${prefix}heads/`;
  const contexts = `${prefix}contexts/`;
  return {
    ...{ prefix, archives, contexts, mark: `${prefix}marked` },
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
