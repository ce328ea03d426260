import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { call, ifGone } from "../api/call.ts";
import { sendFile } from "../api/send-file.ts";
import { confirm } from "../parts/confirm.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { leaveGuard } from "../route.ts";
import { childOf, type FilePath, type InstanceFile, nameOf } from "./file-path.ts";
import { filePath, filesPath } from "./folder.ts";

/** A file that is uploaded, or was. */
interface Upload {
  readonly id: number;
  readonly name: string;
  readonly size: number;
  readonly state: "waiting" | "sending" | "done" | "failed" | "cancelled";
  readonly sent: number;
  readonly problem?: string;
}

interface UploadList {
  readonly all: ReadonlySignal<readonly Upload[]>;
  /** Uploads files into a folder, one after another. */
  add(files: readonly File[], folder: FilePath): void;
  /** The same for what was dropped. */
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

  async function run(id: number, { file, path }: { file: File; path: FilePath }): Promise<void> {
    const aborted = kept.current.running.get(id);
    if (aborted === undefined || aborted.signal.aborted) return;
    const { signal } = aborted;
    try {
      const query = new URLSearchParams({ folder: path, depth: "0" });
      const present = await call<InstanceFile[]>("GET", `${filesPath(instance)}?${query}`, { signal }).catch(ifGone);
      if (present !== undefined && !(await mayReplace(path))) {
        change(id, { state: "cancelled" });
        return;
      }
      change(id, { state: "sending" });
      await sendFile<InstanceFile>("PUT", filePath(instance, path), {
        ...{ file, signal, type: "application/octet-stream", isNew: present === undefined },
        onSent: (sent) => change(id, { sent }),
      });
      change(id, { state: "done" });
      latest.current();
    } catch (error) {
      change(id, signal.aborted ? { state: "cancelled" } : { state: "failed", problem: (error as Error).message });
    } finally {
      kept.current.running.delete(id);
    }
  }

  function add(files: readonly File[], folder: FilePath): void {
    for (const file of files) {
      const path = childOf(folder, file.name.replaceAll("%", "%25"));
      kept.current.next += 1;
      const id = kept.current.next;
      all.value = [...all.peek(), { id, name: nameOf(path), size: file.size, state: "waiting", sent: 0 }];
      kept.current.running.set(id, new AbortController());
      kept.current.last = kept.current.last.then(() => run(id, { file, path }));
    }
  }

  return {
    all,
    add,
    drop(dropped, folder) {
      const files: File[] = [];
      for (const item of dropped.items) {
        const file = item.getAsFile();
        if (file === null) continue;
        if (item.webkitGetAsEntry()?.isDirectory !== true) {
          files.push(file);
          continue;
        }
        kept.current.next += 1;
        const problem = "a folder cannot be uploaded here; upload its files, or an archive";
        const refused = { id: kept.current.next, name: file.name, size: 0, state: "failed", sent: 0, problem } as const;
        all.value = [...all.peek(), refused];
      }
      add(files, folder);
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

function mayReplace(path: FilePath): Promise<boolean> {
  const lost = <p>The file in the instance is replaced by the one that you upload.</p>;
  return confirm({ title: `Replace ${nameOf(path)}?`, lost, verb: "Replace" });
}

const words = { waiting: "waiting", sending: "", done: "uploaded", failed: "", cancelled: "cancelled" } as const;

/** The uploads of a page, with their progress. */
export function Uploads({ of }: { of: UploadList }) {
  const all = of.all.value;
  if (all.length === 0) return null;
  const done = all.filter(({ state }) => state === "done").length;
  return (
    <div class="uploads">
      <p role="status">
        {done} of {all.length === 1 ? "1 file" : `${all.length} files`} uploaded
      </p>
      <ul>
        {all.map((one) => (
          <li key={one.id}>
            <bdi class="path">{one.name}</bdi> <span class="muted">{sizeWords(one.size)}</span>{" "}
            {one.state === "sending" && (
              <progress aria-label={`Upload of ${one.name}`} max={Math.max(1, one.size)} value={one.sent} />
            )}
            {one.problem === undefined ? words[one.state] : <span class="is-bad">{one.problem}</span>}{" "}
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
