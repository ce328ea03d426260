import type { CallOptions, Calls, OperationName } from "./call.ts";
import type { Operations, RawBody, SavedChange, SavedFile, Snapshot, SnapshotVersion } from "./operations.ts";

type Query<Name extends OperationName> = CallOptions<Name> extends { query?: infer Q } ? NonNullable<Q> : never;
type Answer<Name extends OperationName> = Operations[Name]["answer"];
interface Abort {
  readonly signal?: AbortSignal | undefined;
}
const base = "/api/v1/tenants/{id}/snapshots/{workload}";
type Base = typeof base;

/**
 * The saved files of tenants, docs/how-to/versions-of-files.md. A version is named by its SHA-256, the first 16 digits
 * of that, or its name. All throw ApiError, or the signal's reason.
 */
export interface Snapshots {
  /** Snapshots, of one tenant with `tenant`. */
  list(query?: Query<"GET /api/v1/snapshots">, options?: Abort): Promise<Snapshot[]>;
  /** All versions of a tenant's files, the newest first. */
  versions(tenant: string, workload: string, options?: Abort): Promise<SnapshotVersion[]>;
  /** Makes an older version the newest. */
  rollback(
    tenant: string,
    workload: string,
    body: Operations[`POST ${Base}/rollback`]["body"],
    options?: Abort,
  ): Promise<Answer<`POST ${Base}/rollback`>>;
  /** Gives the files to another tenant or workload. */
  copy(
    tenant: string,
    workload: string,
    body: Operations[`POST ${Base}/copy`]["body"],
    options?: Abort,
  ): Promise<Answer<`POST ${Base}/copy`>>;
  /** What is in a version, without reading the files. */
  files(tenant: string, workload: string, query?: Query<`GET ${Base}/files`>, options?: Abort): Promise<SavedFile[]>;
  /** What differs between two versions. */
  diff(tenant: string, workload: string, query?: Query<`GET ${Base}/diff`>, options?: Abort): Promise<SavedChange[]>;
  /** Opens the archive, a tar.gz. */
  download(tenant: string, workload: string, query?: Query<`GET ${Base}/archive`>, options?: Abort): Promise<Response>;
  /** Makes a tar or tar.gz of the overlay directories the newest version. */
  upload(
    tenant: string,
    workload: string,
    archive: RawBody,
    query?: Query<`PUT ${Base}/archive`>,
    options?: Abort,
  ): Promise<Answer<`PUT ${Base}/archive`>>;
  /** Erases the files with all versions; with `newest` only if that is still the newest version. */
  remove(tenant: string, workload: string, query?: Query<`DELETE ${Base}`>, options?: Abort): Promise<void>;
}

export function createSnapshots({ call, send, all }: Calls): Snapshots {
  return {
    list: (query = {}, { signal } = {}) => collect(all("GET /api/v1/snapshots", { query, signal })),
    versions: (id, workload, { signal } = {}) => call(`GET ${base}/versions`, { path: { id, workload }, signal }),
    rollback: (id, workload, body, { signal } = {}) =>
      call(`POST ${base}/rollback`, { path: { id, workload }, body, signal }),
    copy: (id, workload, body, { signal } = {}) => call(`POST ${base}/copy`, { path: { id, workload }, body, signal }),
    files: (id, workload, query = {}, { signal } = {}) =>
      collect(all(`GET ${base}/files`, { path: { id, workload }, query, signal })),
    diff: (id, workload, query = {}, { signal } = {}) =>
      collect(all(`GET ${base}/diff`, { path: { id, workload }, query, signal })),
    download: (id, workload, query = {}, { signal } = {}) =>
      send(`GET ${base}/archive`, { path: { id, workload }, query, signal }),
    upload: (id, workload, body, query = {}, { signal } = {}) =>
      call(`PUT ${base}/archive`, { path: { id, workload }, query, body, contentType: "application/gzip", signal }),
    async remove(id, workload, query = {}, { signal } = {}) {
      await call(`DELETE ${base}`, { path: { id, workload }, query, signal });
    },
  };
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}
