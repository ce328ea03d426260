import { contentRange, createFileReader, packedRange } from "../../../crds/archive/archive-files.ts";
import type { TableEntry } from "../../../crds/archive/archive-table.ts";
import type { OpenArchive } from "../../../crds/snapshots/snapshot-store.ts";
import { tenantUse } from "../../access/route-access.ts";
import { isUnchanged } from "../../http/if-none-match.ts";
import { queryFlag } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { type AskedVersion, askForVersion, streamOf, versionSchema } from "./read-version.ts";
import { findFile, listFolder, type SavedEntry, type SavedFiles, type WithSavedFiles } from "./saved-files.ts";
import { pageSchemas, readPage } from "./saved-pages.ts";
import { attachment, namedPath, pathAtEnd, pathSchema, pathText, queryPath } from "./saved-paths.ts";
import type { SnapshotServices } from "./store.ts";

const PATH = "/api/v1/tenants/:id/snapshots/:workload/files";
/** The last that a time of RFC 3339 can say. */
const LAST_SECOND = 253_402_300_799;

/** `GET …/files` and `GET …/files/{path}` of a tenant's snapshot. */
export function savedFileRoutes(services: SnapshotServices, withSavedFiles: WithSavedFiles): ApiRoute[] {
  return [
    {
      method: "GET",
      path: PATH,
      access: tenantUse,
      summary: "List a tenant's saved files",
      description:
        "What is in one folder, sorted by the bytes of the paths. Only the archive's list is read, not the files. 409 if the version has no such list, since it is older.",
      query: {
        version: versionSchema,
        folder: pathSchema(
          "A folder's `path`, or its `encodedPath` if it has one; by default the top, in which the overlay directories are.",
        ),
        recursive: flagSchema("Whether to list everything below the folder."),
        ...pageSchemas,
      },
      answer: ["SavedFile"],
      mayTell: ["x-tenancy-next"],
      errors: [404, 409, 503, 504],
      async handle(request, context) {
        const folder = queryPath(request, "folder");
        if (folder !== "") request.audit?.about({ path: pathText(folder) });
        const recursive = queryFlag(request, "recursive");
        const page = readPage(request);
        const asked = await askForVersion(request, { ...context, services }, page.versions[0]);
        const { items, headers } = await withSavedFiles([asked], ([files]) =>
          page.of(listFolder(files, { folder, recursive }), [asked]),
        );
        return jsonResponse(items.map(savedFile), { headers });
      },
    },
    {
      method: "GET",
      path: `${PATH}/:path+`,
      access: tenantUse,
      summary: "Download one of a tenant's saved files",
      description:
        "Only this file is read from the store. The connection is closed before the last byte if it is damaged there. 409 for folders and symbolic links.",
      query: { version: versionSchema },
      answer: "application/octet-stream",
      takes: ["if-none-match"],
      tells: ["etag"],
      errors: [404, 409, 503, 504],
      async handle(request, context) {
        const path = pathAtEnd(request);
        const asked = await askForVersion(request, { ...context, services });
        const { file, members } = await withSavedFiles([asked], (files) => ({
          ...{ file: findFile(files[0], path), members: files[0].members },
        }));
        const etag = `"${file.sha256}"`;
        if (isUnchanged(request, etag)) return new Response(null, { status: 304, headers: { etag } });
        const headers = { "content-type": "application/octet-stream", "content-length": String(file.size), etag };
        const content = file.size === 0 ? new Uint8Array(0) : streamOf(await openFile(file, { ...asked, members }));
        return new Response(content, { headers: { ...headers, ...attachment(path) } });
      },
    },
  ];
}

async function openFile(
  file: TableEntry,
  { members, open }: Pick<SavedFiles, "members"> & Pick<AskedVersion, "open">,
): Promise<Pick<OpenArchive, "content" | "close">> {
  const { tarFrom, ...range } = packedRange(members, contentRange(file));
  const opened = await open(range);

  async function* content(): AsyncGenerator<Uint8Array> {
    const reader = createFileReader(opened.content, tarFrom);
    try {
      yield* reader.read(file);
    } finally {
      reader.close();
    }
  }

  return { content: content(), close: opened.close };
}

function savedFile({ path, entry }: { path: string; entry: SavedEntry | undefined }): ApiTypes["SavedFile"] {
  return { ...namedPath(path), ...(entry === undefined ? { type: "directory", sizeBytes: 0 } : entryRecord(entry)) };
}

/** Shows an entry as the API does, without its path. */
export function entryRecord(entry: SavedEntry): Omit<ApiTypes["SavedFile"], "path" | "encodedPath"> {
  const { type, mode, uid, gid, mtime, target } = entry;
  const { size, sha256 } = entry.file ?? entry;
  return {
    ...{ type, sizeBytes: size, mode: mode.toString(8).padStart(4, "0"), uid, gid },
    modifiedAt: new Date(Math.min(mtime, LAST_SECOND) * 1000).toISOString(),
    ...(sha256 !== undefined && { sha256 }),
    ...(target !== "" && { target: pathText(target) }),
  };
}
