import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type Test } from "uvu";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { restoreOverlay } from "../../../operator/snapshots/pods/restore-overlay.ts";
import { saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import { untilCommandsEnd } from "./local-exec.ts";
import { overlayStore } from "./overlay-store.ts";
import { staticBusybox } from "./static-busybox.ts";
import { type ServedStore, serveStore } from "./store-server.ts";

export const machine = { namespace: "here", pod: "this", container: "machine" };
export const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
const key = { tenantId: "tenant", workloadRef: "shell" };

export interface SaveContext {
  folder: string;
  /** The overlay directory, with a file in it. */
  data: string;
  busybox: string;
  served: ServedStore;
  newest(): Promise<SnapshotMetadata | undefined>;
  save(exec: Exec, options?: { busybox?: string; overlayDirs?: string[] }): Promise<SnapshotMetadata>;
  /** Restores what was saved last; resolves with the overlay directory that it is in then. */
  restore(exec: Exec): Promise<string>;
  /** A busybox whose tar is this shell line instead; `$REAL` is the true one, and `"$@"` what it is called with. */
  withTar(line: string): string;
  /** A file that its own user may not read. */
  lock(name: string): void;
}

/** Tests of saves from a folder of this machine, by the scripts that run in a pod. */
export function saveSuite(name: string): Test<SaveContext> {
  const test = suite<SaveContext>(name);
  test.before.each(async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "tenancy-save-"));
    const busybox = join(folder, "busybox");
    const data = join(folder, "data");
    copyFileSync(staticBusybox, busybox);
    for (const made of [data, join(folder, "volume"), join(folder, "to"), join(folder, "to/data")]) mkdirSync(made);
    for (const opened of [folder, busybox, data]) chmodSync(opened, 0o755);
    for (const opened of [data, join(folder, "to/data")]) chmodSync(opened, 0o777);
    const served = await serveStore(join(folder, "volume"));
    const store = overlayStore(served.store, key);
    const common = { ...store, limits: archiveLimits({ diskGb: 1 }), overlayDirs: ["/data"] };
    Object.assign(context, {
      ...{ folder, data, busybox, served },
      newest: async () => (await served.store.look(key, call)).newest,
      save: (exec, options = {}) =>
        saveOverlay({
          ...{ ...common, exec, ...options, ...call },
          pod: { ...machine, busybox, root: folder, ...options },
        }).finally(untilCommandsEnd),
      async restore(exec) {
        const pod = { ...machine, busybox, root: join(folder, "to") };
        await restoreOverlay({ ...{ ...common, exec, opensGate: false, ...call }, pod }).finally(untilCommandsEnd);
        return join(folder, "to/data");
      },
      withTar(line) {
        const path = join(folder, "with-tar");
        writeFileSync(path, `#!/bin/sh\nREAL=${busybox}\n[ "$1" = tar ] || exec "$REAL" "$@"\n${line}\n`);
        chmodSync(path, 0o755);
        return path;
      },
      lock(locked) {
        writeFileSync(join(data, locked), "mine");
        chmodSync(join(data, locked), 0);
        if (process.getuid?.() === 0) chownSync(join(data, locked), 65532, 65532);
      },
    } satisfies SaveContext);
    writeFileSync(join(data, "file"), "content");
  });
  test.after.each(async ({ folder, served }) => {
    await served.close();
    rmSync(folder, { recursive: true, maxRetries: 20 });
  });
  return test;
}
