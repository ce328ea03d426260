import { tenantUse } from "../../access/route-access.ts";
import { queryText } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { ApiRoute } from "../api-route.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { entryRecord } from "./files.ts";
import { askForVersions, versionSchema } from "./read-version.ts";
import type { SavedEntry, SavedFiles, WithSavedFiles } from "./saved-files.ts";
import { pageSchemas, readPage } from "./saved-pages.ts";
import { namedPath } from "./saved-paths.ts";
import type { SnapshotServices } from "./store.ts";
import { findVersion, versionBefore, versionRule } from "./versions.ts";

const DIGITS = "SHA-256 of a version, its first 16 digits, or its name";

interface Difference {
  readonly path: string;
  readonly before: SavedEntry | undefined;
  readonly after: SavedEntry | undefined;
}

/** `GET /api/v1/tenants/{id}/snapshots/{workload}/diff`. */
export function diffRoute(services: SnapshotServices, withSavedFiles: WithSavedFiles): ApiRoute {
  return {
    method: "GET",
    path: "/api/v1/tenants/:id/snapshots/:workload/diff",
    access: tenantUse,
    summary: "Compare two versions of a tenant's saved files",
    description:
      "What was added, changed or removed, sorted by the bytes of the paths. A file of which only the time differs is not listed. 409 if a version has no list of its files, since it is older than such lists.",
    query: {
      from: { ...versionSchema, description: `${DIGITS}; by default the version before \`to\`.` },
      to: { ...versionSchema, description: `${DIGITS}; the newest by default.` },
      ...pageSchemas,
    },
    answer: ["SavedChange"],
    mayTell: ["x-tenancy-next"],
    errors: [404, 409, 503, 504],
    async handle(request, context) {
      const page = readPage(request);
      const [from, to] = ["from", "to"].map((name, index) => {
        return queryText(request, name, versionRule) ?? page.versions[index];
      });
      const versions = await askForVersions(request, { ...context, services }, (key, kept) => {
        const after = findVersion(key, kept, to);
        return [from === undefined ? versionBefore(kept, after) : findVersion(key, kept, from), after];
      });
      const { items, headers } = await withSavedFiles(versions, ([before, after]) =>
        page.of(compare(before, after), versions),
      );
      return jsonResponse(items.map(changeRecord), { headers });
    },
  };
}

/** Sorted by the bytes of the paths. */
function compare(from: SavedFiles, to: SavedFiles): Difference[] {
  const found: Difference[] = [];
  for (const [path, before] of from.entries) {
    const after = to.entries.get(path);
    if (after === undefined || !isSame(before, after)) found.push({ path, before, after });
  }
  for (const [path, after] of to.entries) if (!from.entries.has(path)) found.push({ path, before: undefined, after });
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Whether all but the time is the same. A hard link counts as the file that it is another name of. */
function isSame(a: SavedEntry, b: SavedEntry): boolean {
  const [before, after] = [a.file ?? a, b.file ?? b];
  return (["type", "mode", "uid", "gid", "target", "sha256"] as const).every((name) => before[name] === after[name]);
}

function changeRecord({ path, before, after }: Difference): ApiTypes["SavedChange"] {
  return {
    ...namedPath(path),
    change: before === undefined ? "added" : after === undefined ? "removed" : "changed",
    ...(before !== undefined && { before: entryRecord(before) }),
    ...(after !== undefined && { after: entryRecord(after) }),
  };
}
