import { tenantUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { isUnchanged } from "../../http/if-none-match.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { ApiRoute } from "../api-route.ts";
import { packEntries } from "./pack-entries.ts";
import { type AskedVersion, askForVersion, streamOf, versionSchema } from "./read-version.ts";
import { entriesOfFolder, type WithSavedFiles } from "./saved-files.ts";
import { attachment, pathSchema, pathText, queryPath } from "./saved-paths.ts";
import type { SnapshotServices } from "./store.ts";

/** Each keeps the list of its files in memory to its end: 85 MB of 200 000. */
const FOLDERS_AT_ONCE = 8;

/** `GET /api/v1/tenants/{id}/snapshots/{workload}/archive`. */
export function archiveRoute(services: SnapshotServices, withSavedFiles: WithSavedFiles): ApiRoute {
  let packing = 0;
  return {
    method: "GET",
    path: "/api/v1/tenants/:id/snapshots/:workload/archive",
    access: tenantUse,
    summary: "Download a tenant's saved files",
    description:
      "A tar.gz with the paths in the pod, without the leading slash. The connection is closed before the last byte if the stored archive is damaged.",
    query: {
      version: versionSchema,
      folder: pathSchema(
        "Only this folder: its `path` in the list of files, or its `encodedPath` if it has one. 409 if the version has no such list, since it is older.",
      ),
    },
    answer: "application/gzip",
    takes: ["if-none-match"],
    tells: ["etag"],
    errors: [404, 409, 503, 504],
    async handle(request, context) {
      const folder = queryPath(request, "folder");
      if (folder !== "") request.audit?.about({ path: pathText(folder) });
      const asked = await askForVersion(request, { ...context, services });
      if (folder !== "") return await sendFolder(request, asked, folder);
      const { version, etag } = asked;
      if (isUnchanged(request, etag)) return new Response(null, { status: 304, headers: { etag } });
      const opened = await asked.open();
      const length = { "content-length": String(version.sizeBytes) };
      return new Response(streamOf(opened), { headers: { ...headersOf(asked), ...length } });
    },
  };

  async function sendFolder(request: RoutedRequest, asked: AskedVersion, folder: string): Promise<Response> {
    if (packing >= FOLDERS_AT_ONCE) {
      throw new HttpError(503, `${FOLDERS_AT_ONCE} folders are being downloaded already; try again soon`, {
        headers: { "retry-after": "5" },
      });
    }
    packing += 1;
    let isEnded = false;
    function end(): void {
      if (!isEnded) packing -= 1;
      isEnded = true;
    }
    try {
      const part = await withSavedFiles([asked], ([files]) => ({
        ...{ members: files.members, entries: entriesOfFolder(files, folder) },
      }));
      // Another runtime compresses it to other bytes.
      const etag = `W/${asked.etag}`;
      if (isUnchanged(request, asked.etag)) {
        end();
        return new Response(null, { status: 304, headers: { etag } });
      }
      const packed = packEntries(part, { open: asked.open, onEnd: end });
      return new Response(streamOf(packed), { headers: { ...headersOf(asked, folder), etag } });
    } catch (error) {
      end();
      throw error;
    }
  }
}

function headersOf({ key: { tenantId, workloadRef }, etag }: AskedVersion, folder?: string) {
  const part = folder === undefined ? "" : `-${folder.slice(folder.lastIndexOf("/") + 1)}`;
  return { "content-type": "application/gzip", etag, ...attachment(`${tenantId}-${workloadRef}${part}.tar.gz`) };
}
