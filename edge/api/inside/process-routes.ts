import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import { quote } from "../../../crds/quote.ts";
import { pathParam, queryFlag, queryText } from "../../http/parameters.ts";
import { readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { type ApiRoute, bodySchema, flagSchema } from "../api-route.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { ENDLESS_MS, type InsidePlace } from "./call-inside.ts";
import { eventStream, streamKindOf } from "./event-stream.ts";
import { bounded, podLines } from "./pod-answer.ts";
import { processBody, startParameters } from "./process-body.ts";
import { type OutputEvent, outputEvents, processOf, shownEvents } from "./process-output.ts";
import { offsetSchemas, offsetsOf, pidRule } from "./process-query.ts";

const MAX_OUTPUT_BYTES = 1024 * 1024;

const streamQuery = {
  follow: flagSchema("Whether to stream the output as it comes, as server-sent events or lines of JSON, by `Accept`."),
  encoding: {
    type: "string",
    enum: ["text", "base64"],
    default: "text",
    description: "How streamed output is written: as `text`, or its bytes as `base64`.",
  },
} as const satisfies Record<string, OpenApiSchema>;

const signalBody = v.strictObject({
  signal: v.pipe(
    v.string(),
    v.regex(/^(SIG)?[A-Z0-9]{2,8}$/, "must be the name of a signal, such as SIGTERM"),
    v.description("Its name, with or without SIG."),
  ),
});

/** The routes of processes that are started in instances. */
export function processRoutes(
  { base, access, query, errors, find }: InsidePlace,
  { clock }: { clock: Clock },
): ApiRoute[] {
  const all = `${base}/processes`;
  const one = `${all}/:pid`;
  return [
    {
      method: "POST",
      path: all,
      access,
      summary: "Start a process in an instance",
      description:
        "In the workload's container, as its user. Waits for its end and returns its output; one in the background goes on without a connection, and keeps the last MiB of each output. It ends with its caller's connection otherwise, and in any case when the instance is released. At most 64 at once.",
      query: { ...streamQuery, ...query },
      body: bodySchema(processBody),
      answer: "Process",
      streams: true,
      errors: [404, 408, 409, 410, 413, 503, 504, ...errors],
      async handle(request, context) {
        const follow = queryFlag(request, "follow");
        const isBase64 = isBase64Query(request);
        const body = await readJson(request, processBody);
        const inside = await find(request, context);
        const failure = { mayHaveActed: true };
        const parameters = startParameters(body);
        // The program in the pod ends it before.
        const limitMs = ((parameters.timeoutSeconds ?? 0) + 30) * 1000;
        // One byte more says that there is more.
        const most = !follow && !body.background && { mostOutput: MAX_OUTPUT_BYTES + 1 };
        const { answer, data } = await inside.open("start", { ...parameters, ...most }, { failure, limitMs });
        const started = { type: "process", process: processOf(answer) } as const;
        request.audit?.about({ pid: String(started.process.pid) });
        if (body.background) {
          await bounded(data, 0);
          return jsonResponse(started.process);
        }
        if (!follow) return jsonResponse(await collect(outputEvents(data)));
        const events = startingWith(started, shownEvents(outputEvents(data), { isBase64 }));
        return eventStream(events, { kind: streamKindOf(request), clock, leave: () => data.return() });
      },
    },
    {
      method: "GET",
      path: all,
      access,
      query,
      summary: "Processes that were started in an instance",
      description:
        "Those that run, and the last 16 of the background that have ended. The workload's own program is not one of them. Of a command, about the first 12 KiB: its last argument then ends with how many bytes are missing.",
      answer: ["Process"],
      errors: [404, 409, 410, 503, 504, ...errors],
      async handle(request, context) {
        const inside = await find(request, context);
        const { data } = await inside.open("processes", {});
        return jsonResponse((await podLines(data)).map(processOf));
      },
    },
    {
      method: "GET",
      path: one,
      access,
      summary: "One process with its output",
      description: "With the output that is kept: the last MiB of each, and the last 64 KiB of a terminal.",
      query: { ...query, ...streamQuery, ...offsetSchemas },
      answer: "Process",
      streams: true,
      errors: [404, 409, 410, 503, 504, ...errors],
      async handle(request, context) {
        const follow = queryFlag(request, "follow");
        const isBase64 = isBase64Query(request);
        const offsets = offsetsOf(request);
        const pid = pidOf(request);
        const inside = await find(request, context);
        const limit = follow ? { limitMs: ENDLESS_MS } : {};
        const { data } = await inside.open("attach", { pid, follow, ...offsets }, limit);
        if (!follow) return jsonResponse(await collect(outputEvents(data)));
        const events = shownEvents(outputEvents(data), { isBase64 });
        return eventStream(events, { kind: streamKindOf(request), clock, leave: () => data.return() });
      },
    },
    {
      method: "POST",
      path: `${one}/signal`,
      access,
      query,
      summary: "Send a signal to a process and its group",
      body: bodySchema(signalBody),
      answer: "Process",
      errors: [404, 408, 409, 410, 413, 503, 504, ...errors],
      async handle(request, context) {
        const pid = pidOf(request);
        const { signal } = await readJson(request, signalBody);
        const inside = await find(request, context);
        return jsonResponse(
          processOf(await inside.ask("signal", { pid, signal }, { failure: { mayHaveActed: true } })),
        );
      },
    },
  ];
}

function pidOf(request: RoutedRequest): number {
  return Number(pathParam(request, "pid", pidRule));
}

function isBase64Query(request: RoutedRequest): boolean {
  const rule = {
    accepts: (value: string) => value === "text" || value === "base64",
    says: `must be ${quote("text")} or ${quote("base64")}`,
  };
  return queryText(request, "encoding", rule) === "base64";
}

/** All of a process's output that there is, as text, and its state. */
async function collect(events: AsyncIterable<OutputEvent>): Promise<ApiTypes["Process"]> {
  const outputs = { stdout: createCollected(), stderr: createCollected() };
  let process: ApiTypes["Process"] | undefined;
  for await (const event of events) {
    if (event.type === "process") process = event.process;
    else outputs[event.type].add(event.offset, event.bytes);
  }
  if (process === undefined) throw new Error("Cannot show a process without its state");
  const { stdout, stderr } = outputs;
  return {
    ...process,
    ...{ stdout: stdout.text(), stderr: stderr.text() },
    ...((stdout.isCut() || stderr.isCut()) && { truncated: true }),
  };
}

function createCollected() {
  const kept: Uint8Array[] = [];
  let bytes = 0;
  let isCut = false;
  return {
    add(offset: number, piece: Uint8Array): void {
      const room = MAX_OUTPUT_BYTES - bytes;
      isCut ||= offset !== bytes || piece.length > room;
      bytes += piece.length;
      if (room > 0) kept.push(piece.subarray(0, room));
    },
    text: () => Buffer.concat(kept).toString("utf8"),
    isCut: () => isCut,
  };
}

async function* startingWith<T>(first: T, rest: AsyncIterable<T>): AsyncGenerator<T, void> {
  yield first;
  yield* rest;
}
