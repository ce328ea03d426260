import { createHash } from "node:crypto";
import { ArchiveError } from "../../crds/archive/archive-error.ts";
import { checkContext } from "../../crds/archive/check-context.ts";
import { BLOCK, tarPadding, writeTarHeader } from "../../crds/archive/tar-header.ts";
import type { ConfigMap, Pod } from "../../crds/kubernetes.ts";
import type { Workload } from "../../crds/workload.ts";
import { ExecFailure } from "../snapshots/streams/exec-output.ts";
import { fedScript, feedCommand } from "../snapshots/streams/feed-command.ts";
import { END, frames } from "../snapshots/streams/frames.ts";
import type { BuildContext } from "./build-context.ts";
import { applyBuildsPolicy, type BuilderContext } from "./build-jobs.ts";
import type { BuildFailure, BuildRecord } from "./build-result.ts";
import { CONTEXT_CONTAINER } from "./render-build.ts";

/** The state of a build's context. */
export type Fed =
  | { readonly state: "feeding"; readonly message?: string | undefined; readonly requeueAfterMs?: number | undefined }
  /** It will never arrive. */
  | { readonly state: "ended"; readonly record: BuildRecord };

/** An uploaded build context does not exist any more. */
class ContextGoneError extends Error {
  override readonly name = "ContextGoneError";
}

const BUSYBOX = "/bin/busybox";
/** The exit code for a complete archive that tar cannot unpack. */
const UNPACK_FAILED = 65;
/** The name of the folder in an archive, and of the folder that is built. */
const FOLDER = "files";

/**
 * The script for the waiting init container, with the parameters busybox and the folder. It reads a tar archive with
 * entries below `files`, as frames. It can run again after an interrupted run, and beside another one: the complete
 * folder appears by one rename, and the leftovers of ended processes are deleted first.
 */
export const contextScript = fedScript(`b="$1"
unpack() {
  "$b" mkdir in.$$ || return 1
  { receive || : > in.$$/.cut; } | { "$b" tar x -o -C in.$$ -f - || { : > in.$$/.bad; "$b" cat > /dev/null; }; }
  [ ! -e in.$$/.cut ] || { echo "the context was cut off"; return 1; }
  [ ! -e in.$$/.bad ] || return ${UNPACK_FAILED}
  "$b" mv -T in.$$/${FOLDER} ${FOLDER} 2> /dev/null || [ -d ${FOLDER} ]
}
bring() {
  cd "$1" || return 1
  [ ! -e .ready ] || return 0
  for former in in.*; do
    [ "$former" != in.$$ ] && [ -d "/proc/\${former#in.}" ] || "$b" rm -rf "$former" || return 1
  done
  unpack
  code=$?
  "$b" rm -rf in.$$
  [ $code = 0 ] && : > .ready
  return $code
}
bring "$2"`);

/**
 * Sends the context to a build whose pod waits for it. It runs in the background: the first call begins it, and later
 * calls return its state.
 */
export function feedBuild(build: { workload: Workload; found: BuildContext; pod: Pod }, context: BuilderContext): Fed {
  const { workload, pod } = build;
  const work = context.feeds.run(
    pod.metadata.uid ?? "",
    (signal) => feed(build, signal, context),
    () => context.enqueueWorkload(workload.metadata.name),
  );
  if (work.state !== "failed") return { state: "feeding" };
  const { error, retryInMs } = work;
  const message = error instanceof Error ? error.message : String(error);
  const ended = (reason: BuildFailure, said: string): Fed => {
    const finishedAt = new Date(context.serverNow()).toISOString();
    return { state: "ended", record: { state: "Failed", reason, message: said, finishedAt, isLeft: true } };
  };
  const isUnpackable =
    error instanceof ExecFailure && error.exitCode === UNPACK_FAILED && !/No space left on device/.test(message);
  if (error instanceof ArchiveError || isUnpackable)
    return ended("ContextRefused", `the build context is refused: ${message}`);
  if (error instanceof ContextGoneError) return ended("ContextMissing", `${message}: upload it again`);
  return { state: "feeding", message: `the build context could not be sent: ${message}`, requeueAfterMs: retryInMs };
}

async function feed(
  { workload, found, pod }: { workload: Workload; found: BuildContext; pod: Pod },
  signal: AbortSignal,
  context: BuilderContext,
): Promise<void> {
  const { builds, contexts, exec } = context;
  if (exec === undefined) throw new Error("Cannot send the build context: this operator runs no commands in pods");
  // The steps run as soon as the context has arrived.
  await applyBuildsPolicy(context);
  const { timeoutMs, contextLimitBytes: limitBytes } = builds;
  async function* input(): AsyncGenerator<Uint8Array> {
    switch (found.kind) {
      case "configMap":
        yield* frames(tarOfConfigMap(found.configMap));
        break;
      case "archive": {
        const { sha256 } = found;
        const opened = await contexts.open(workload.metadata.name, sha256, { signal, timeoutMs });
        if (opened === undefined) throw new ContextGoneError(`build context ${sha256} does not exist any more`);
        try {
          yield* frames(checkContext(sameAs(sha256, opened.content), { folder: FOLDER, limitBytes }));
        } finally {
          opened.close();
        }
        break;
      }
      default:
        throw new Error(`Cannot send the build context: it is ${found.kind}`);
    }
    yield END;
  }
  await feedCommand({
    exec,
    target: {
      namespace: builds.namespace,
      pod: pod.metadata.name,
      container: CONTEXT_CONTAINER,
      command: [BUSYBOX, "sh", "-c", contextScript, CONTEXT_CONTAINER, BUSYBOX, "/context"],
    },
    what: "send the build context",
    input: input(),
    signal,
    timeoutMs,
  });
}

/** Passes the bytes on, and fails at their end if their SHA-256 differs, so that the build matches its key. */
async function* sameAs(sha256: string, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  for await (const chunk of source) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest("hex") !== sha256) throw new Error("Cannot send the build context: it differs from the uploaded one");
}

/** A ConfigMap's keys have no slash, so all files are in one folder. */
export function* tarOfConfigMap({ data = {}, binaryData = {} }: ConfigMap): Generator<Buffer> {
  const given = { uid: 0, gid: 0, mtime: 0, target: "" };
  yield writeTarHeader({ ...given, type: "directory", path: FOLDER, mode: 0o755, size: 0 });
  const files: [string, Buffer][] = [
    ...Object.entries(data).map(([name, text]): [string, Buffer] => [name, Buffer.from(text, "utf8")]),
    ...Object.entries(binaryData).map(([name, text]): [string, Buffer] => [name, Buffer.from(text, "base64")]),
  ];
  for (const [name, content] of files) {
    yield writeTarHeader({ ...given, type: "file", path: `${FOLDER}/${name}`, mode: 0o644, size: content.length });
    yield content;
    yield tarPadding(content.length);
  }
  yield Buffer.alloc(2 * BLOCK);
}
