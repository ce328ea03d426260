import { createHash, randomBytes } from "node:crypto";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import { archiveDigits, type SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { collectOutput } from "../../../operator/snapshots/streams/exec-output.ts";
import { fedScript, feedCommand } from "../../../operator/snapshots/streams/feed-command.ts";
import { END, frames } from "../../../operator/snapshots/streams/frames.ts";
import { storeScripts } from "./shell-scripts.ts";
import { call } from "./store-contract.ts";

/** Where archives are kept: a container with busybox, and the folder in it that the snapshots volume is mounted at. */
interface StoreFolder extends Omit<ExecTarget, "command"> {
  /** The path of busybox in the container. @default "/bin/busybox" */
  readonly busybox?: string | undefined;
  /** @default "/snapshots" */
  readonly root?: string | undefined;
}

/** The command that runs one of the store's scripts there, killed when it takes longer than `limitMs` milliseconds. */
function storeCommand(
  folder: StoreFolder,
  options: { script: string; words: readonly string[]; limitMs: number },
): ExecTarget {
  const { namespace, pod, container, busybox = "/bin/busybox", root = "/snapshots" } = folder;
  const seconds = String(Math.ceil(options.limitMs / 1000));
  const shell = [busybox, "sh", "-c", options.script, "store", busybox, root, ...options.words];
  return { namespace, pod, container, command: [busybox, "timeout", seconds, ...shell] };
}

/** The store of the versions before the snapshots server: scripts that were run in the helper pod. */
export function shellStore(exec: Exec, folder: StoreFolder) {
  async function run(script: string, ...words: string[]): Promise<string | undefined> {
    const target = storeCommand(folder, { script, words, limitMs: call.timeoutMs });
    const { exitCode, stdout } = await collectOutput(exec, { target, ...call });
    return exitCode === 0 ? stdout : undefined;
  }

  return {
    async write(
      key: SnapshotKey,
      content: string,
      { replaces, keeps = false }: { replaces?: string | undefined; keeps?: boolean } = {},
    ): Promise<SnapshotMetadata> {
      const sha256 = createHash("sha256").update(content).digest("hex");
      const metadata = {
        ...{ sha256, sizeBytes: content.length, ...key, uid: 1, gid: 2, entries: 1, contentBytes: 1 },
        ...{ overlayDirs: ["/data"], createdAt: "2026-11-20T12:00:00.000Z" },
      };
      const over = [replaces === undefined ? "" : archiveDigits(replaces), keeps ? "keep" : ""];
      const words = [key.tenantId, key.workloadRef, randomBytes(4).toString("hex"), "", ...over];
      const target = storeCommand(folder, { script: fedScript(storeScripts.write), words, limitMs: call.timeoutMs });
      async function* input(): AsyncGenerator<Uint8Array> {
        yield* frames([Buffer.from(content)]);
        yield Buffer.concat([END, Buffer.from(`${sha256}\n${JSON.stringify(metadata)}\n`)]);
      }
      await feedCommand({ exec, target, what: "store the archive", input: input(), ...call });
      return metadata;
    },
    /** SHA-256 of the newest archive or a version, by what is recorded of it. */
    async digestOf(key: SnapshotKey, version = ""): Promise<string | undefined> {
      const found = await run(storeScripts.digest, key.tenantId, key.workloadRef, archiveDigits(version));
      return found?.slice(0, 64);
    },
    /** A line of each newest archive. */
    async list(): Promise<readonly string[]> {
      const lines = ((await run(storeScripts.list, ".", "2")) ?? "").split("\n");
      return lines.filter((line) => line.startsWith("after "));
    },
    async delete(key: SnapshotKey): Promise<boolean> {
      return (await run(storeScripts.delete, key.tenantId, key.workloadRef, "", "")) !== undefined;
    },
  };
}
