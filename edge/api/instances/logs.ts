import type { Clock } from "../../../crds/client/clock.ts";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { type Deadline, startDeadline, whenAborted } from "../../../crds/waits.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { instanceNameRule, pathParam, queryFlag } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { Kubectl, KubectlProcess } from "../../kubectl/kubectl.ts";
import { createBoundedText } from "../../kubectl/kubectl.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { findInstance, type InstanceServices, instanceError } from "./instance.ts";

const DEFAULT_TAIL = 200;
const MAX_TAIL = 100_000;

/** `GET /api/v1/instances/{id}/logs`: what the workload's container printed, as plain text. */
export function logsRoute(services: InstanceServices): ApiRoute {
  return {
    method: "GET",
    path: "/api/v1/instances/:id/logs",
    summary: "What the workload's container printed",
    query: {
      tail: { type: "integer", minimum: 0, maximum: 100000, default: 200, description: "The last lines, this many." },
      follow: flagSchema("Whether to go on with what is printed from now on."),
      previous: flagSchema("Whether it is about the run before the container's last restart."),
    },
    answer: "text/plain",
    errors: [404, 409, 503, 504],
    async handle(request, { clientGone, mayBeSilent }) {
      const name = pathParam(request, "id", instanceNameRule);
      const logsRequest = {
        name,
        tail: tailOf(request),
        follow: queryFlag(request, "follow"),
        previous: queryFlag(request, "previous"),
      };
      await findInstance(name, services);
      mayBeSilent?.();
      const { kubectl, clock } = services;
      const body = await podLogs(logsRequest, { kubectl, clock, clientGone: clientGone ?? request.signal });
      return new Response(body, {
        headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
      });
    },
  };
}

function tailOf({ query }: RoutedRequest): number {
  const { tail } = query;
  if (tail === undefined) return DEFAULT_TAIL;
  const count = typeof tail === "string" && /^\d{1,6}$/.test(tail) ? Number(tail) : Number.NaN;
  if (!(count <= MAX_TAIL)) {
    throw new HttpError(400, `query.tail: must be a whole number from 0 to ${MAX_TAIL}, got ${quote(String(tail))}`);
  }
  return count;
}

/** Which part of a log is wanted. */
interface LogsRequest {
  readonly name: string;
  /** The last lines, at most this many. */
  readonly tail: number;
  /** Whether to go on with what is printed from now on. */
  readonly follow: boolean;
  /** Whether it is about the container's run before its last restart. */
  readonly previous: boolean;
}

const LIMIT_MS = 60_000;
/** Without it, a client that stops reading would hold its kubectl for ever. */
const READ_LIMIT_MS = 10 * 60_000;
/** A quiet program's log has no first byte, and its reader wants to know that the stream is open. */
const FOLLOW_HEAD_MS = 3000;

/**
 * Reads the log of a workload's container by kubectl, at the reader's pace. A stream that breaks off fails, so that it
 * never looks complete; it ends with the container, and with the client. A log that is not followed has to be read
 * within ten minutes.
 *
 * @throws HttpError as {@link instanceError} says where kubectl fails before its first byte; 504 when it is silent for
 *   60 s
 */
async function podLogs(
  request: LogsRequest,
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<ReadableStream<Uint8Array>> {
  const { name, tail, follow, previous } = request;
  const { kubectl, clock, clientGone } = options;
  const flags = [...(follow ? ["--follow"] : []), ...(previous ? ["--previous"] : [])];
  const child = await kubectl.start(["logs", name, "--container", WORKLOAD_CONTAINER, `--tail=${tail}`, ...flags], {
    pod: name,
    isEndless: follow,
  });
  const stderr = createBoundedText(64 * 1024);
  child.stderr.on("data", (chunk: Uint8Array) => stderr.add(chunk));
  const chunks = child.stdout[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  const first = chunks.next();
  // A stream that nobody reads any more may fail unheard.
  first.catch(() => undefined);

  const deadline = startDeadline(follow ? FOLLOW_HEAD_MS : LIMIT_MS, clock);
  const stopped = whenAborted([deadline.signal, clientGone]);
  try {
    const head = await Promise.race([first, stopped.promise]);
    if (clientGone?.aborted) throw new HttpError(499, "the client went away");
    if (head === undefined && !follow) throw new HttpError(504, `the log has not come after ${LIMIT_MS / 1000} s`);
    if (head?.done === true) await expectSuccess();
  } catch (error) {
    child.kill();
    throw error;
  } finally {
    stopped.close();
    deadline.close();
  }
  const limit = follow ? undefined : startDeadline(READ_LIMIT_MS, clock);
  return streamOf({ child, first, chunks, clientGone, limit, expectSuccess });

  async function expectSuccess(): Promise<void> {
    const code = await child.ended;
    if (code === undefined) throw new HttpError(503, "the server stops");
    if (code !== 0) throw instanceError(stderr.end(), { name });
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
  // Some runtimes cancel a body only when they next write to it.
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
