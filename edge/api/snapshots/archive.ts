import { pattern } from "../../../crds/schema/patterns.ts";
import type { OpenArchive } from "../../../crds/snapshots/snapshot-store.ts";
import { HttpError } from "../../http/http-error.ts";
import { isUnchanged } from "../../http/if-none-match.ts";
import { queryText } from "../../http/parameters.ts";
import type { ApiRoute } from "../api-route.ts";
import { askStore, lookAtSnapshots, noSnapshot, type SnapshotServices } from "./store.ts";
import { findVersion, keyOf, versionRule } from "./versions.ts";

const DOWNLOAD_LIMIT_MS = 3_600_000;

/** `GET /api/v1/tenants/{id}/snapshots/{workload}/archive`. */
export function archiveRoutes(services: SnapshotServices): ApiRoute[] {
  return [
    {
      method: "GET",
      path: "/api/v1/tenants/:id/snapshots/:workload/archive",
      summary: "Download a tenant's saved files",
      description:
        "A tar.gz with the paths in the pod, without the leading slash. The connection is closed before the last byte if the stored archive is damaged.",
      query: {
        version: {
          ...{ type: "string", pattern: pattern.archiveVersion },
          description: "SHA-256 of the version, or its first 16 digits; the newest by default.",
        },
      },
      answer: "application/gzip",
      takes: ["if-none-match"],
      tells: ["etag"],
      errors: [404, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const key = keyOf(request);
        const version = queryText(request, "version", versionRule);
        mayBeSilent?.();
        const asking = { ...services, clientGone: clientGone ?? request.signal };
        const found = findVersion(key, await lookAtSnapshots(key, services, asking.clientGone), version);
        const etag = `"${found.sha256}"`;
        if (isUnchanged(request, etag)) return new Response(null, { status: 304, headers: { etag } });
        const opened = await askStore(({ archives }, call) => archives.open(key, found.sha256, call), {
          ...asking,
          limitMs: DOWNLOAD_LIMIT_MS,
        });
        // A save has replaced it in the meantime.
        if (opened === undefined) throw version === undefined ? again() : noSnapshot(key);
        const { tenantId, workloadRef } = key;
        return new Response(streamOf(opened), {
          headers: {
            "content-type": "application/gzip",
            "content-length": String(found.sizeBytes),
            "content-disposition": `attachment; filename="${tenantId}-${workloadRef}.tar.gz"`,
            etag,
          },
        });
      },
    },
  ];
}

function again(): HttpError {
  return new HttpError(503, "another snapshot has replaced it in the meantime; try again", {
    headers: { "retry-after": "1" },
  });
}

/**
 * Stops reading the archive when the response ends. The last chunk is sent only after the digest is verified: a client
 * that has received the announced number of bytes takes them as complete, even if the connection breaks.
 */
function streamOf(opened: OpenArchive): ReadableStream<Uint8Array> {
  const content = withoutEmpty(opened.content);
  let following: Promise<IteratorResult<Uint8Array>> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await (following ?? content.next());
        if (done === true) {
          controller.close();
          return;
        }
        following = content.next();
        await following;
        controller.enqueue(value);
      },
      async cancel() {
        opened.close();
        // It ends with the reason of the abort.
        await content.return().catch(() => undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

async function* withoutEmpty(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  for await (const piece of content) if (piece.length > 0) yield piece;
}
