import { insideHref } from "../parts/hrefs.ts";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";
import { Download } from "./download.tsx";
import { type InstanceFile, nameOf, pathOf, visible } from "./file-path.ts";
import { MOST_TEXT_BYTES } from "./text-file.ts";

/** One entry of a folder. */
export function FileRow(props: {
  instance: string;
  of: InstanceFile;
  setMode(): void;
  rename(): void;
  remove(): void;
}) {
  const { instance, of, setMode, rename, remove } = props;
  const { type, sizeBytes, mode, modifiedAt, target } = of;
  const path = pathOf(of);
  const name = nameOf(path);
  const shown = <bdi class="path">{name}</bdi>;
  return (
    <tr>
      <td>
        {type === "directory" ? (
          <a href={insideHref(instance, "files", { folder: path })}>{shown}/</a>
        ) : type === "symlink" ? (
          <a href={insideHref(instance, "files", { folder: path })}>{shown}</a>
        ) : type === "file" && sizeBytes <= MOST_TEXT_BYTES ? (
          <a href={insideHref(instance, "files", { file: path })}>{shown}</a>
        ) : (
          shown
        )}
        {target !== undefined && (
          <span class="muted">
            {" "}
            link to <bdi class="path">{visible(target)}</bdi>
          </span>
        )}
        {type === "other" && <span class="muted"> device, pipe or socket</span>}
      </td>
      <td class="number" data-label="size">
        {type === "file" && sizeWords(sizeBytes)}
      </td>
      <td data-label="mode">
        {type === "symlink" ? (
          <code>{mode}</code>
        ) : (
          <button type="button" class="mono" aria-label={`Mode ${mode} of ${name}`} onClick={setMode}>
            {mode}
          </button>
        )}
      </td>
      <td data-label="changed">
        <When at={modifiedAt} />
      </td>
      <td>
        <span class="acts">
          {type !== "other" && (
            <Download {...{ instance, path, label: `Download ${name}`, isFolder: type === "directory" }} />
          )}
          <button type="button" aria-label={`Rename ${name}`} onClick={rename}>
            Rename
          </button>
          <button type="button" class="danger" aria-label={`Delete ${name}`} onClick={remove}>
            Delete
          </button>
        </span>
      </td>
    </tr>
  );
}
