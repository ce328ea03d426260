import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { confirm } from "../parts/confirm.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { leaveGuard } from "../route.ts";
import { pathName } from "./dropped-folder.ts";
import { childOf, type FilePath, nameOf } from "./file-path.ts";
import { archiveJob, fileJob, folderJob, type UploadJob } from "./upload-jobs.ts";

/** A file or folder that is uploaded, or was. */
export interface Upload {
  readonly id: number;
  readonly name: string;
  /** Bytes; 0 until a folder was read. */
  readonly size: number;
  readonly state: "waiting" | "sending" | "done" | "failed" | "cancelled";
  readonly sent: number;
  readonly files: number;
  readonly doneFiles: number;
  /** How far it is, in words. */
  readonly note: string;
  readonly problem?: string;
}

interface UploadList {
  readonly all: ReadonlySignal<readonly Upload[]>;
  /** Uploads files into a folder, one after another. */
  add(files: readonly File[], folder: FilePath): void;
  /** Unpacks an archive into a folder. */
  unpack(file: File, folder: FilePath): void;
  /** Uploads the files and folders that were dropped. */
  drop(dropped: DataTransfer, folder: FilePath): void;
  cancel(id: number): void;
  /** Forgets those that have ended. */
  clear(): void;
}

const isOpen = ({ state }: Upload): boolean => state === "waiting" || state === "sending";

/** @param onDone called after each upload */
export function useUploads(instance: string, onDone: () => void): UploadList {
  const all = useSignal<readonly Upload[]>([]);
  const kept = useRef({ next: 0, last: Promise.resolve(), running: new Map<number, AbortController>() });
  const latest = useRef(onDone);
  latest.current = onDone;
  useEffect(() => {
    const { running } = kept.current;
    const end = leaveGuard.set((to) => {
      // In another folder the uploads go on.
      const stays = to?.pathname === location.pathname && !to.searchParams.has("file");
      if (stays || !all.peek().some(isOpen)) return undefined;
      const lost = <p>The uploads stop. A file that is not complete is not stored.</p>;
      return confirm({ title: "Leave during the upload?", lost, verb: "Leave" });
    });
    return () => {
      end();
      for (const aborted of running.values()) aborted.abort();
    };
  }, []);

  function change(id: number, fields: Partial<Upload>): void {
    all.value = all.peek().map((one) => (one.id === id ? { ...one, ...fields } : one));
  }

  function start(name: string, size: number, job: UploadJob): void {
    kept.current.next += 1;
    const id = kept.current.next;
    const fields = { id, name, size, state: "waiting", sent: 0, files: 1, doneFiles: 0, note: "" } as const;
    all.value = [...all.peek(), fields];
    kept.current.running.set(id, new AbortController());
    kept.current.last = kept.current.last.then(() => run(id, job));
  }

  async function run(id: number, job: UploadJob): Promise<void> {
    const aborted = kept.current.running.get(id);
    if (aborted === undefined || aborted.signal.aborted) return;
    const { signal } = aborted;
    try {
      const isDone = await job({ signal, change: (fields) => change(id, fields) });
      change(id, { state: isDone ? "done" : "cancelled" });
    } catch (error) {
      change(id, signal.aborted ? { state: "cancelled" } : { state: "failed", problem: (error as Error).message });
    } finally {
      kept.current.running.delete(id);
      latest.current();
    }
  }

  function add(files: readonly File[], folder: FilePath): void {
    for (const file of files) {
      const path = childOf(folder, pathName(file.name));
      start(nameOf(path), file.size, fileJob(instance, { file, path }));
    }
  }

  return {
    all,
    add,
    unpack(file, folder) {
      start(nameOf(pathName(file.name)), file.size, archiveJob(instance, { file, folder }));
    },
    drop(dropped, folder) {
      // What was dropped can be read only now.
      for (const item of [...dropped.items]) {
        const of = item.webkitGetAsEntry();
        const file = item.getAsFile();
        if (of?.isDirectory === true) {
          const path = childOf(folder, pathName(of.name));
          start(`${nameOf(path)}/`, 0, folderJob(instance, { of, path }));
        } else if (file !== null) {
          add([file], folder);
        }
      }
    },
    cancel(id) {
      kept.current.running.get(id)?.abort(new Error("Upload cancelled."));
      change(id, { state: "cancelled" });
    },
    clear() {
      all.value = all.peek().filter(isOpen);
    },
  };
}

const words = { waiting: "waiting", sending: "", done: "uploaded", failed: "", cancelled: "cancelled" } as const;

function stateOf({ state, note }: Upload): string {
  return [words[state], note].filter((part) => part !== "").join(", ");
}

/** The uploads of a page, with their progress. */
export function Uploads({ of }: { of: UploadList }) {
  const all = of.all.value;
  if (all.length === 0) return null;
  const files = all.reduce((sum, one) => sum + one.files, 0);
  const doneFiles = all.reduce((sum, one) => sum + one.doneFiles, 0);
  return (
    <div class="uploads">
      <p role="status">
        {doneFiles} of {files === 1 ? "1 file" : `${files} files`} uploaded
      </p>
      <ul>
        {all.map((one) => (
          <li key={one.id}>
            <bdi class="path">{one.name}</bdi> <span class="muted">{sizeWords(one.size)}</span>{" "}
            {one.state === "sending" && (
              <progress aria-label={`Upload of ${one.name}`} max={Math.max(1, one.size)} value={one.sent} />
            )}{" "}
            {one.problem !== undefined && <span class="is-bad">{one.problem}</span>} {stateOf(one)}{" "}
            {isOpen(one) && (
              <button type="button" aria-label={`Cancel ${one.name}`} onClick={() => of.cancel(one.id)}>
                Cancel
              </button>
            )}
          </li>
        ))}
      </ul>
      {all.every((one) => !isOpen(one)) && (
        <div class="acts">
          <button type="button" onClick={of.clear}>
            Clear
          </button>
        </div>
      )}
    </div>
  );
}
