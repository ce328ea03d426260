import * as v from "valibot";
import type { ApiTypes } from "../openapi/schemas.ts";
import { namedPath, pathText } from "../snapshots/saved-paths.ts";
import { podAnswer } from "./pod-answer.ts";

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

/** What the program in a pod says of a file, a folder or something else. */
export const entrySchema = v.object({
  path: v.string(),
  type: v.picklist(["file", "directory", "symlink", "other"]),
  size: count,
  mode: v.pipe(v.string(), v.regex(/^[0-7]{4}$/)),
  modifiedAt: v.pipe(v.string(), v.isoTimestamp()),
  uid: count,
  gid: count,
  target: v.optional(v.string()),
  etag: v.optional(v.pipe(v.string(), v.regex(/^[0-9a-f-]{1,100}$/))),
});
type Entry = v.InferOutput<typeof entrySchema>;

/** Also where its content begins, and how many bytes follow. */
export const readSchema = v.object({ ...entrySchema.entries, offset: count, length: v.optional(count) });

/** Shows an answer as the API does. @throws HttpError 409 if it is no entry */
export function fileOf(answer: unknown): ApiTypes["InstanceFile"] {
  return shownFile(podAnswer(entrySchema, answer));
}

/** Shows an entry, with its path from the root, as the API does. */
export function shownFile({ path, size, target, etag, ...rest }: Entry): ApiTypes["InstanceFile"] {
  return {
    ...namedPath(path.slice(1)),
    ...rest,
    sizeBytes: size,
    ...(target !== undefined && { target: pathText(target) }),
    ...(etag !== undefined && { etag: `"${etag}"` }),
  };
}
