import { pattern } from "../../../crds/schema/patterns.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import type { ByteRange, KeptSnapshots, OpenArchive } from "../../../crds/snapshots/snapshot-store.ts";
import { HttpError } from "../../http/http-error.ts";
import { queryText } from "../../http/parameters.ts";
import type { RequestContext, RoutedRequest } from "../../http/router.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import { askStore, lookAtSnapshots, type SnapshotServices } from "./store.ts";
import { findVersion, keyOf, versionRule } from "./versions.ts";

const DOWNLOAD_LIMIT_MS = 3_600_000;

/** The query parameter that {@link askForVersion} reads. */
export const versionSchema: OpenApiSchema = {
  ...{ type: "string", pattern: pattern.archive },
  description: "SHA-256 of the version, its first 16 digits, or its name; the newest by default.",
};

/** A version of a snapshot that a request asks for. */
export interface AskedVersion {
  readonly key: SnapshotKey;
  readonly version: SnapshotMetadata;
  /** Its entity tag, with the quotes. */
  readonly etag: string;
  readonly services: SnapshotServices & { readonly clientGone: AbortSignal };
  /** Opens its archive, or a part of it. @throws HttpError 503 if it was replaced in the meantime; as `askStore` does */
  open(range?: ByteRange): Promise<OpenArchive>;
}

type Asking = RequestContext & { readonly services: SnapshotServices };

/**
 * The version that `version` names.
 *
 * @param otherwise the version without that parameter; the newest by default
 * @throws HttpError 400 if the request is not valid, 404 if there is no such version; as `lookAtSnapshots` does
 */
export async function askForVersion(
  request: RoutedRequest,
  context: Asking,
  otherwise?: string,
): Promise<AskedVersion> {
  const wanted = queryText(request, "version", versionRule) ?? otherwise;
  const [asked] = await askForVersions(request, context, (key, kept) => [findVersion(key, kept, wanted)]);
  return asked;
}

/** Versions of the same key. @throws HttpError as {@link askForVersion} does */
export async function askForVersions<T extends readonly SnapshotMetadata[]>(
  request: RoutedRequest,
  { clientGone = request.signal, mayBeSilent, services: given }: Asking,
  choose: (key: SnapshotKey, kept: KeptSnapshots | undefined) => readonly [...T],
): Promise<{ [Index in keyof T]: AskedVersion }> {
  const key = keyOf(request);
  mayBeSilent?.();
  const services = { ...given, clientGone };
  const chosen = choose(key, await lookAtSnapshots(key, services, clientGone));
  request.audit?.about({ version: chosen.map(({ sha256 }) => sha256.slice(0, 16)).join(" ") });
  const asked = chosen.map((version): AskedVersion => {
    return {
      ...{ key, version, services, etag: `"${version.sha256}"` },
      async open(range) {
        const asking = { ...services, limitMs: DOWNLOAD_LIMIT_MS };
        const opened = await askStore(
          ({ archives }, call) => archives.open(key, version.sha256, { ...call, range }),
          asking,
        );
        if (opened !== undefined) return opened;
        throw againReplaced();
      },
    };
  });
  return asked as { [Index in keyof T]: AskedVersion };
}

/** For a version that was there a moment ago. */
export function againReplaced(): HttpError {
  return new HttpError(503, "another snapshot has replaced it in the meantime; try again", {
    headers: { "retry-after": "1" },
  });
}

/**
 * Stops reading when the response ends. The last chunk is sent only when nothing follows it, so after the content is
 * verified: a client that has received the announced number of bytes takes them as complete, even if the connection
 * breaks.
 */
export function streamOf(opened: Pick<OpenArchive, "content" | "close">): ReadableStream<Uint8Array> {
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
