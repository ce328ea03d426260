import { pipeline, Readable, Transform } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { createGzip } from "node:zlib";
import type { Workload, WorkloadStatus } from "../../../crds/workload.ts";
import { type Api, ApiRefusal } from "./api.ts";
import { findContext } from "./pack-context.ts";

type Build = NonNullable<WorkloadStatus["build"]> & { readonly image?: string };

const ASK_AGAIN_MS = 1000;
const PROGRESS_BYTES = 16 * 1024 * 1024;

/**
 * Packs a folder, uploads it as a workload's build context and follows the build until its end.
 *
 * @param options.log called with a line about each step
 * @param options.onOutput called with the builder's output
 * @returns whether the build succeeded
 * @throws Error that says what failed
 */
export async function buildWorkload(options: {
  api: Api;
  name: string;
  folder: string;
  log: (line: string) => void;
  onOutput: (chunk: Buffer) => void;
  signal: AbortSignal;
}): Promise<boolean> {
  const { api, name, folder, log, onOutput, signal } = options;
  const path = `/workloads/${encodeURIComponent(name)}`;
  const { spec } = await api.json<Pick<Workload, "spec">>("GET", path);
  const { dockerfile } = spec.image;
  if (dockerfile === undefined) {
    throw new Error(`Cannot build ${name}: its spec has image.ref and not image.dockerfile, so it is not built`);
  }
  const context = findContext(folder, { dockerfile });
  for (const left of context.leftOut) log(`left out: ${left} is neither a file nor a folder nor a link`);
  log(`uploading ${folder}: ${context.files} files, ${shown(context.bytes)}`);
  const before = await api.json<Build>("GET", `${path}/build`);
  const kept = await api.json<{ sha256: string; sizeBytes: number }>("PUT", `${path}/context`, {
    body: () => packed(context.archive(), log),
  });
  log(`uploaded ${shown(kept.sizeBytes)}, sha256 ${kept.sha256}`);
  return follow();

  async function follow(): Promise<boolean> {
    let said = "";
    let run = "";
    let hasBegun = false;
    let isLogged = false;
    for (;;) {
      const build = await api.json<Build>("GET", `${path}/build`);
      const { state, reason, message } = build;
      const hasEnded = state === "Built" || state === "Failed";
      if (!hasEnded) {
        const line = message === undefined ? state : `${state}: ${message}`;
        if (line !== said) log(line);
        said = line;
        // If a build was lost, its next try has a new log.
        const present = `${build.startedAt} ${build.tries ?? 0}`;
        if (present !== run) isLogged = false;
        run = present;
      }
      // A short build may end before its log is requested. If no build was started, the log would be an older build's.
      const hasStarted = build.startedAt !== undefined && build.startedAt !== before.startedAt;
      hasBegun ||= state === "Building" || (hasEnded && hasStarted);
      if (hasBegun && !isLogged) isLogged = await printLog();
      if (state === "Built") {
        const steps = build.steps === undefined ? "" : ` (${build.steps} steps, ${build.cached ?? 0} of them cached)`;
        log(`built ${build.image ?? build.digest ?? ""}${steps}`);
        return true;
      }
      if (state === "Failed") {
        log(`failed, ${reason ?? "Error"}: ${message ?? "see the log"}`);
        return false;
      }
      await sleep(ASK_AGAIN_MS, undefined, { signal });
    }
  }

  /** Whether the builder has printed something. It prints nothing while it receives the context. */
  async function printLog(): Promise<boolean> {
    let hasPrinted = false;
    try {
      await api.text(`${path}/build/logs?follow=true&tail=100000`, (chunk) => {
        hasPrinted = true;
        onOutput(chunk);
      });
    } catch (error) {
      if (signal.aborted) throw error;
      // The build has not begun, its pod is gone, or the stream broke. The state of the build shows how it ends.
      if (!(error instanceof ApiRefusal)) log(`the log broke off: ${error instanceof Error ? error.message : error}`);
    }
    return hasPrinted;
  }
}

function packed(archive: AsyncIterable<Buffer>, log: (line: string) => void): Readable {
  let bytes = 0;
  let next = PROGRESS_BYTES;
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      bytes += chunk.length;
      if (bytes >= next) {
        next += PROGRESS_BYTES;
        log(`  ${shown(bytes)} sent`);
      }
      callback(null, chunk);
    },
  });
  // The reader of the last stream gets every error.
  return pipeline(Readable.from(archive), createGzip(), counted, () => undefined);
}

function shown(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
