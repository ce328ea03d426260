import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { namedPath, pathText } from "../snapshots/saved-paths.ts";
import { ENDLESS_MS, type Inside } from "./call-inside.ts";
import { eventStream, streamKindOf } from "./event-stream.ts";
import { entrySchema, shownFile } from "./file-entry.ts";
import { podAnswer, podEvents } from "./pod-answer.ts";

const path = v.pipe(v.string(), v.minLength(1));
const entry = v.optional(entrySchema);
const eventSchema = v.variant("type", [
  v.object({ type: v.picklist(["created", "changed", "removed"]), path, entry }),
  v.object({ type: v.literal("moved"), path, from: path, entry }),
  v.object({ type: v.literal("overflow") }),
  v.object({ type: v.literal("ended"), reason: v.picklist(["folderGone", "tooManyFolders"]) }),
]);

const endings = {
  folderGone: "the folder was removed or moved",
  tooManyFolders: "it has more folders than can be watched: watch a part of it, or less deep",
} as const;

/** What a client that watches a folder gets. */
export type WatchEvent =
  | { readonly type: "watching" | "overflow" }
  | { readonly type: "ended"; readonly message: string }
  | {
      readonly type: "created" | "changed" | "removed" | "moved";
      readonly path: string;
      readonly encodedPath?: string;
      /** Of what was moved: its path before. */
      readonly from?: string;
      readonly encodedFrom?: string;
      /** Absent if it is no longer there. */
      readonly entry?: ApiTypes["InstanceFile"];
    };

/**
 * A stream of what changes in a folder.
 *
 * @param watched.folder its path without the slash at its start; bytes, one per character
 * @param watched.depth how many folders deep
 * @throws HttpError 404 without the folder, 409 if it is none or has too many folders in it
 */
export async function watchFolder(
  request: RoutedRequest,
  watched: { readonly folder: string; readonly depth: number },
  { inside, clock }: { inside: Inside; clock: Clock },
): Promise<Response> {
  const { folder, depth } = watched;
  const root = `/${folder}`;
  const options = { failure: { path: pathText(root) }, limitMs: ENDLESS_MS };
  const { data } = await inside.open("watch", { path: root, depth }, options);
  const events = watchEvents(data, folder === "" ? "" : `${folder}/`);
  return eventStream(events, { kind: streamKindOf(request), clock, leave: () => data.return() });
}

async function* watchEvents(data: AsyncIterable<Uint8Array>, below: string): AsyncGenerator<WatchEvent, void> {
  yield { type: "watching" };
  for await (const line of podEvents(data)) {
    const event = podAnswer(eventSchema, line);
    if (event.type === "overflow") yield event;
    else if (event.type === "ended") yield { type: "ended", message: endings[event.reason] };
    else {
      const { type, entry } = event;
      const named = namedPath(`${below}${event.path}`);
      yield {
        ...{ type, ...named },
        ...(event.type === "moved" && fromOf(`${below}${event.from}`)),
        ...(entry !== undefined && { entry: shownFile({ ...entry, path: `/${below}${event.path}` }) }),
      };
    }
  }
}

function fromOf(before: string): { from: string; encodedFrom?: string } {
  const { path: from, encodedPath: encodedFrom } = namedPath(before);
  return { from, ...(encodedFrom !== undefined && { encodedFrom }) };
}
