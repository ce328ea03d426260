import type { ApiTypes } from "../../api/openapi/schemas.ts";

type Named = Pick<ApiTypes["SavedFile"], "path" | "encodedPath">;

/** The path by which the API and the page's address name a saved file. */
export const namedBy = ({ path, encodedPath }: Named): string => encodedPath ?? path;

/** The same as a part of a URL. */
export function urlPath({ path, encodedPath }: Named): string {
  return encodedPath ?? path.split("/").map(encodeURIComponent).join("/");
}

/** The last part of a path. */
export const lastPart = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** A path in all its characters; what it says of the direction of text ends with it. */
export function SavedPath({ of: { path, encodedPath } }: { of: Named }) {
  return (
    <>
      <bdi class="path">{path}</bdi>
      {encodedPath !== undefined && <code class="muted"> {encodedPath}</code>}
    </>
  );
}
