import { useEffect, useRef, useState } from "preact/hooks";
import type { ClaimKey } from "../claims/claim.ts";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { confirm } from "../parts/confirm.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { leaveGuard } from "../route.ts";
import { upload } from "./acts.tsx";

/** Uploads a local file as the newest version. */
export function Upload({ of, onEnd }: { of: ClaimKey; onEnd(): void }) {
  const [file, setFile] = useState<File>();
  const [sent, setSent] = useState<number>();
  const acts = useActs();
  const running = useRef<{ readonly aborted: AbortController; isSending: boolean } | undefined>(undefined);
  useEffect(() => {
    const end = leaveGuard.set(() => {
      if (running.current?.isSending !== true) return undefined;
      const lost = <p>The upload stops, and nothing is stored.</p>;
      return confirm({ title: "Leave during the upload?", lost, verb: "Leave" });
    });
    return () => {
      end();
      stop();
    };
  }, []);
  const stop = (): void => running.current?.aborted.abort(new Error("Upload cancelled."));
  const total = file?.size ?? 0;
  return (
    <section aria-labelledby="upload">
      <h2 id="upload">Upload</h2>
      <form
        class="spec"
        onSubmit={(event) => {
          event.preventDefault();
          if (file !== undefined) acts.run("Upload", run);
        }}
      >
        <div class="field">
          <label for="archive">Archive</label>
          <input
            id="archive"
            type="file"
            accept=".tar,.tar.gz,.tgz,application/gzip,application/x-tar"
            disabled={sent !== undefined}
            onChange={(event) => setFile(event.currentTarget.files?.[0])}
          />
          <p class="muted">
            A tar or tar.gz of the folders that the workload saves, as in a download. It is checked and becomes the
            newest version.
          </p>
        </div>
        <div class="acts">
          <Act acts={acts} verb="Upload" disabled={file === undefined} act={run} />
          {sent !== undefined && sent < total && (
            <button type="button" onClick={stop}>
              Cancel
            </button>
          )}
        </div>
      </form>
      {sent !== undefined && (
        <p>
          <progress aria-label="Upload progress" max={total} value={sent} />{" "}
          {sent < total ? `${sizeWords(sent)} of ${sizeWords(total)} sent` : "Upload complete; checking and storing …"}
        </p>
      )}
      <Outcome acts={acts} />
    </section>
  );

  async function run(): Promise<string | undefined> {
    if (file === undefined) return undefined;
    const mine = { aborted: new AbortController(), isSending: false };
    running.current = mine;
    try {
      return await upload(of, {
        file,
        onStart() {
          mine.isSending = true;
          setSent(0);
        },
        onSent: setSent,
        signal: mine.aborted.signal,
      });
    } finally {
      running.current = undefined;
      setSent(undefined);
      if (mine.isSending) onEnd();
    }
  }
}
