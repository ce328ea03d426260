import type { ApiTypes } from "../../api/openapi/schemas.ts";
import type { ClaimKey } from "../claims/claim.ts";
import { useFocusOn } from "../parts/focus.ts";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";
import { place } from "../route.ts";
import { snapshotPath } from "./acts.tsx";
import { More, useSavedPages } from "./saved-pages.tsx";
import { lastPart, namedBy, SavedPath, urlPath } from "./saved-path.tsx";

type SavedFile = ApiTypes["SavedFile"];

/** The page's address that shows a folder of a version. */
export function filesHref(version: string, folder = ""): string {
  const query = new URLSearchParams({ files: version, ...(folder !== "" && { folder }) });
  return `${place.value.pathname}?${query}`;
}

/** What is in a folder of a version. */
export function Files({ of, version }: { of: ClaimKey; version: string }) {
  const folder = place.value.searchParams.get("folder") ?? "";
  const path = `${snapshotPath(of)}/files`;
  const query = new URLSearchParams({ version, ...(folder !== "" && { folder }) });
  const list = useSavedPages<SavedFile>(`${path}?${query}`);
  const heading = useFocusOn<HTMLHeadingElement>(folder);
  return (
    <section aria-labelledby="folder">
      <h2 id="folder" tabIndex={-1} ref={heading}>
        <Crumbs {...{ version, folder }} />
      </h2>
      {list.rows?.length === 0 && <p>The folder is empty.</p>}
      {list.rows !== undefined && list.rows.length > 0 && (
        <table aria-label="Files" class="stack files">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Changed</th>
              <th scope="col">Action</th>
            </tr>
          </thead>
          <tbody>
            {list.rows.map((file) => (
              <Row key={namedBy(file)} of={file} {...{ version, path }} />
            ))}
          </tbody>
        </table>
      )}
      <More of={list} />
    </section>
  );
}

/** Links to the folders that a folder is in. */
function Crumbs({ version, folder }: { version: string; folder: string }) {
  const parts = folder === "" ? [] : folder.split("/");
  if (parts.length === 0) return <>All folders</>;
  return (
    <>
      <a href={filesHref(version)}>All folders</a>
      {parts.map((part, at) => {
        const name = <bdi class="path">{partWords(part)}</bdi>;
        const to = parts.slice(0, at + 1).join("/");
        return (
          <span key={to}>
            {" / "}
            {at === parts.length - 1 ? name : <a href={filesHref(version, to)}>{name}</a>}
          </span>
        );
      })}
    </>
  );
}

/** A part of an encoded path stays as it is if it is not UTF-8. */
function partWords(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Row({ of, version, path }: { of: SavedFile; version: string; path: string }) {
  const { type, sizeBytes, modifiedAt, target } = of;
  const { path: name, encodedPath } = of;
  const shown = <SavedPath of={{ path: lastPart(name), ...(encodedPath && { encodedPath: lastPart(encodedPath) }) }} />;
  const isFile = type === "file" || type === "hardlink";
  return (
    <tr>
      <td>
        {type === "directory" ? <a href={filesHref(version, namedBy(of))}>{shown}/</a> : shown}
        {target !== undefined && (
          <span class="muted">
            {type === "symlink" ? " link to " : " the same file as "}
            <bdi class="path">{target}</bdi>
          </span>
        )}
      </td>
      <td class="number" data-label="size">
        {isFile && sizeWords(sizeBytes)}
      </td>
      <td data-label="changed">{modifiedAt && <When at={modifiedAt} />}</td>
      <td>
        {isFile && (
          <a
            download
            aria-label={`Download ${lastPart(name)}`}
            href={`/api/v1${path}/${urlPath(of)}?version=${encodeURIComponent(version)}`}
          >
            Download
          </a>
        )}
      </td>
    </tr>
  );
}
