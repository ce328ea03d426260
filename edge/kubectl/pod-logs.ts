import type { Clock } from "../../crds/client/clock.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { type Deadline, startDeadline, whenAborted } from "../../crds/waits.ts";
import { HttpError } from "../http/http-error.ts";
import { createBoundedText, type Kubectl, type KubectlProcess } from "./kubectl.ts";

/** The requested part of a log. */
export interface LogsRequest {
  readonly pod: string;
  readonly container: string;
  /** Maximum number of last lines. */
  readonly tail: number;
  /** Whether to follow the log. */
  readonly follow: boolean;
  /** Whether to read the run before the container's last restart. @default false */
  readonly previous?: boolean;
  /** Whether each line begins with its time and a space. @default false */
  readonly timestamps?: boolean;
  /**
   * Whether the API server reports the container as running, so that its log can be opened. The response to a follower
   * then begins immediately: a quiet program's log has no first byte to wait for. @default false
   */
  readonly runs?: boolean;
}

/** Whether a container of a pod is running, according to the API server. */
export function containerRuns({ status }: Pod, container: string): boolean {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return all.find(({ name }) => name === container)?.state?.running !== undefined;
}

const LIMIT_MS = 60_000;
/** Otherwise a client that stops reading would occupy its kubectl forever. */
const READ_LIMIT_MS = 10 * 60_000;
/**
 * How long to wait for the failure of a log that may not exist yet; its reader wants to know soon that the stream is
 * open.
 */
const FOLLOW_HEAD_MS = 3000;

/**
 * Returns the log of a container, which kubectl reads at the reader's pace. A stream that breaks off fails, so that it
 * never looks complete; it ends with the container, or when the client disconnects. A log that is not followed must be
 * read within ten minutes.
 *
 * @param options.failure converts kubectl's output to an error
 * @throws the result of `failure` if kubectl fails before its first byte, unless the container is known to be running;
 * HttpError 504 when it is silent for 60 s
 */
export async function podLogs(
  request: LogsRequest,
  options: {
    kubectl: Kubectl;
    clock: Clock;
    clientGone: AbortSignal | undefined;
    failure: (stderr: string) => Error;
  },
): Promise<Response> {
  const { pod, container, tail, follow, previous = false, timestamps = false, runs = false } = request;
  const { kubectl, clock, clientGone, failure } = options;
  const asked = { "--follow": follow, "--previous": previous, "--timestamps": timestamps };
  const flags = Object.entries(asked).flatMap(([flag, isAsked]) => (isAsked ? [flag] : []));
  const child = await kubectl.start(["logs", pod, "--container", container, `--tail=${tail}`, ...flags], {
    pod,
    isEndless: follow,
  });
  const stderr = createBoundedText(64 * 1024);
  child.stderr.on("data", (chunk: Uint8Array) => stderr.add(chunk));
  const chunks = child.stdout[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  const first = chunks.next();
  // A stream without a reader may fail unhandled.
  first.catch(() => undefined);

  if (!(follow && runs && !previous)) await expectFirst();
  const limit = follow ? undefined : startDeadline(READ_LIMIT_MS, clock);
  return new Response(streamOf({ child, first, chunks, clientGone, limit, expectSuccess }), {
    headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
  });

  async function expectFirst(): Promise<void> {
    const deadline = startDeadline(follow ? FOLLOW_HEAD_MS : LIMIT_MS, clock);
    const stopped = whenAborted([deadline.signal, clientGone]);
    try {
      const head = await Promise.race([first, stopped.promise]);
      if (clientGone?.aborted) throw new HttpError(499, "the client went away");
      if (head === undefined && !follow) throw new HttpError(504, `the log did not arrive within ${LIMIT_MS / 1000} s`);
      if (head?.done === true) await expectSuccess();
    } catch (error) {
      child.kill();
      throw error;
    } finally {
      stopped.close();
      deadline.close();
    }
  }

  async function expectSuccess(): Promise<void> {
    const code = await child.ended;
    if (code === undefined) throw new HttpError(503, "the server is stopping");
    if (code !== 0) throw failure(stderr.end());
  }
}

function streamOf(source: {
  child: KubectlProcess;
  first: Promise<IteratorResult<Uint8Array>>;
  chunks: AsyncIterator<Uint8Array>;
  clientGone: AbortSignal | undefined;
  limit: Deadline | undefined;
  expectSuccess: () => Promise<void>;
}): ReadableStream<Uint8Array> {
  const { child, chunks, clientGone, limit, expectSuccess } = source;
  let next: Promise<IteratorResult<Uint8Array>> | undefined = source.first;
  // Some runtimes cancel a body only at their next write to it.
  const stopped = whenAborted([limit?.signal, clientGone]);
  const end = (): void => {
    stopped.close();
    limit?.close();
    child.kill();
  };
  stopped.promise.then(end);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await (next ?? chunks.next());
        next = undefined;
        if (done !== true) {
          controller.enqueue(value);
          return;
        }
        await expectSuccess();
        end();
        controller.close();
      } catch (error) {
        end();
        controller.error(error);
      }
    },
    cancel: end,
  });
}
