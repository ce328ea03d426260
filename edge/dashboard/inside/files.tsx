import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { CallError } from "../api/call.ts";
import { InstanceHead } from "../claims/tabs.tsx";
import { Outcome, Refresh, useActs } from "../parts/acts.tsx";
import { useFocusOn } from "../parts/focus.ts";
import { insideHref } from "../parts/hrefs.ts";
import { Problem, Reading } from "../parts/problem.tsx";
import { type PageParams, place } from "../route.ts";
import { Download } from "./download.tsx";
import { Editor } from "./editor.tsx";
import { changeMode, newFolder, remove, rename } from "./file-acts.tsx";
import { type FilePath, nameOf, pathOf, visible } from "./file-path.ts";
import { FileRow } from "./file-row.tsx";
import { useFolder } from "./folder.ts";
import type { WatchState } from "./folder-watch.ts";
import { NameDialog, type NameQuestion } from "./name-dialog.tsx";
import { Uploads, useUploads } from "./uploads.tsx";

export default function Files({ params }: { params: PageParams }) {
  const { name = "" } = params;
  const { searchParams } = place.value;
  const file = searchParams.get("file");
  const folder = searchParams.get("folder") ?? "";
  const heading = useFocusOn<HTMLHeadingElement>(file ?? folder);
  return (
    <>
      <InstanceHead of={name} current="files" />
      {file === null ? (
        <Folder instance={name} {...{ folder, heading }} />
      ) : (
        <Editor key={file} instance={name} path={file} heading={heading}>
          <Crumbs instance={name} path={file} />
        </Editor>
      )}
    </>
  );
}

const ARCHIVES = ".tar,.tar.gz,.tgz,application/gzip,application/x-tar";

type Heading = RefObject<HTMLHeadingElement | null>;

function Folder({ instance, folder, heading }: { instance: string; folder: FilePath; heading: Heading }) {
  const list = useFolder(instance, folder);
  const acts = useActs();
  const [question, setQuestion] = useState<NameQuestion>();
  const [isOver, setOver] = useState(false);
  const uploads = useUploads(instance, list.again);
  const picker = useRef<HTMLInputElement>(null);
  const archivePicker = useRef<HTMLInputElement>(null);

  // What had the focus may be gone with its row.
  const focused = useRef<Element | null>(null);
  useEffect(() => {
    if (focused.current?.isConnected === false && document.activeElement === document.body)
      heading.current?.focus({ preventScroll: true });
  }, [list.value]);

  function done(outcome: string): void {
    acts.run("", async () => outcome);
    list.again();
  }

  const files = list.value?.files;
  const isNoFolder = list.error instanceof CallError && list.error.message.endsWith(": it is no folder");
  return (
    <section
      aria-labelledby="folder"
      class={isOver ? "drop is-over" : "drop"}
      onFocusIn={({ target }) => {
        focused.current = target as Element;
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer !== null) uploads.drop(event.dataTransfer, folder);
      }}
    >
      <h2 id="folder" tabIndex={-1} ref={heading}>
        <Crumbs instance={instance} path={folder} />
      </h2>
      <div class="acts">
        <Refresh acts={acts} again={list.refresh} />
        {files !== undefined && (
          <>
            <button type="button" onClick={() => picker.current?.click()}>
              Upload
            </button>
            {folder !== "" && (
              <button type="button" onClick={() => archivePicker.current?.click()}>
                Unpack an archive
              </button>
            )}
            <button type="button" onClick={() => setQuestion(newFolder(instance, folder, done))}>
              New folder
            </button>
            {folder !== "" && (
              <Download {...{ instance, path: folder, label: "Download the folder", isFolder: true }} />
            )}
            <input
              {...{ ref: picker, type: "file", multiple: true, hidden: true }}
              aria-label="Files to upload"
              onChange={({ currentTarget }) => {
                uploads.add([...(currentTarget.files ?? [])], folder);
                currentTarget.value = "";
              }}
            />
            <input
              {...{ ref: archivePicker, type: "file", accept: ARCHIVES, hidden: true }}
              aria-label="Archive to unpack"
              onChange={({ currentTarget }) => {
                const file = currentTarget.files?.[0];
                if (file !== undefined) uploads.unpack(file, folder);
                currentTarget.value = "";
              }}
            />
            <span class="muted hint">or drop files and folders here</span>
          </>
        )}
      </div>
      {files !== undefined && <Watched state={list.watch} isKnown={list.error !== undefined} />}
      <Outcome acts={acts} />
      <Uploads of={uploads} />
      <Problem error={list.error} />
      {isNoFolder && (
        <p>
          <a href={insideHref(instance, "files", { file: folder })}>Open it as a file</a>
        </p>
      )}
      <Reading of={list} />
      {files?.length === 0 && <p>The folder is empty.</p>}
      {files !== undefined && files.length > 0 && (
        <table aria-label="Files" class="stack files">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Mode</th>
              <th scope="col">Changed</th>
              <th scope="col">Actions</th>
            </tr>
          </thead>
          <tbody>
            {files.map((file) => (
              <FileRow
                key={pathOf(file)}
                {...{ instance, of: file }}
                setMode={() => setQuestion(changeMode(instance, file, done))}
                rename={() => setQuestion(rename(instance, file, done))}
                remove={() =>
                  acts.run(`Delete ${pathOf(file)}`, async () => {
                    const outcome = await remove(instance, file);
                    if (outcome === undefined) return undefined;
                    list.again();
                    return outcome;
                  })
                }
              />
            ))}
          </tbody>
        </table>
      )}
      {list.value?.hasMore === true && (
        <div class="acts">
          <button type="button" onClick={list.more}>
            Show more
          </button>
        </div>
      )}
      {question !== undefined && <NameDialog key={question.title} of={question} close={() => setQuestion(undefined)} />}
    </section>
  );
}

/**
 * Whether the list follows changes, in one line, so that nothing below it moves.
 *
 * @param props.isKnown whether the page shows the reason already
 */
function Watched({ state, isKnown }: { state: WatchState; isKnown: boolean }) {
  return (
    <div class="watched">
      {(state.is === "connecting" || state.is === "live") && (
        <span class={`fresh is-${state.is}`}>
          <span aria-hidden="true">{state.is === "live" ? "●" : "○"}</span> {state.is}
        </span>
      )}
      <div role="status" class="is-bad">
        {state.is === "lost" && "Disconnected. Reconnecting…"}
        {state.is === "refused" &&
          (isKnown ? (
            "This list does not refresh itself."
          ) : (
            <details class="long">
              <summary>This list does not refresh itself.</summary>
              {visible(state.message)}
            </details>
          ))}
      </div>
    </div>
  );
}

/** Links to the folders that a path is in. */
function Crumbs({ instance, path }: { instance: string; path: FilePath }) {
  if (path === "") return <>/</>;
  const parts = path.split("/");
  return (
    <>
      <a href={insideHref(instance, "files")} aria-label="All folders">
        /
      </a>
      {parts.map((part, at) => {
        const to = parts.slice(0, at + 1).join("/");
        const name = <bdi class="path">{nameOf(part)}</bdi>;
        return (
          <span key={to}>
            {" "}
            {at === parts.length - 1 ? name : <a href={insideHref(instance, "files", { folder: to })}>{name}</a>}
            {at < parts.length - 1 && " /"}
          </span>
        );
      })}
    </>
  );
}
