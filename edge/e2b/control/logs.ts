import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { instanceError } from "../../api/instances/instance.ts";
import { queryNumber, queryText, queryWords } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../../http/router.ts";
import { podLogs } from "../../kubectl/pod-logs.ts";
import type { ControlServices } from "./control-services.ts";
import { requireRunning } from "./sandbox.ts";
import { useOne } from "./sandbox-access.ts";

const MOST_LINES = 1000;
/** Of the last lines; what comes before is left out. */
const MOST_BYTES = 4 * 1024 * 1024;

interface LogLine {
  /** ISO 8601. */
  readonly timestamp: string;
  readonly message: string;
}

/** `GET /sandboxes/{id}/logs` and `GET /v2/sandboxes/{id}/logs`: the log of the workload's program. */
export function logRoutes(services: ControlServices): Route[] {
  return [
    {
      method: "GET",
      path: "/e2b/sandboxes/:sandbox/logs",
      access: useOne,
      query: { start: {}, limit: {} },
      async handle(request, context) {
        const from = queryNumber(request, "start", Number.MAX_SAFE_INTEGER) ?? 0;
        const lines = (await lastLines(request, context, services)).filter((line) => timeOf(line) >= from);
        const logs = lines.map(({ timestamp, message }) => ({ timestamp, line: message }));
        return jsonResponse({ logs, logEntries: lines.map(entryOf) });
      },
    },
    {
      method: "GET",
      path: "/e2b/v2/sandboxes/:sandbox/logs",
      access: useOne,
      query: { cursor: {}, limit: {}, direction: {}, level: {}, search: {} },
      async handle(request, context) {
        const isBackward = queryWords(request, "direction", ["forward", "backward"])?.[0] === "backward";
        const level = queryWords(request, "level", ["debug", "info", "warn", "error"])?.[0] ?? "info";
        const search = queryText(request, "search", { accepts: () => true, says: "" }) ?? "";
        const cursor = queryNumber(request, "cursor", Number.MAX_SAFE_INTEGER);
        const lines = (await lastLines(request, context, services)).filter((line) => {
          const time = timeOf(line);
          const isAsked = cursor === undefined || (isBackward ? time <= cursor : time >= cursor);
          // A program's lines have no level.
          return isAsked && (level === "debug" || level === "info") && line.message.includes(search);
        });
        const entries = lines.map(entryOf);
        return jsonResponse({ logs: isBackward ? entries.reverse() : entries });
      },
    },
  ];
}

function timeOf({ timestamp }: LogLine): number {
  return Date.parse(timestamp);
}

function entryOf({ timestamp, message }: LogLine) {
  return { timestamp, message, level: "info", fields: {} };
}

async function lastLines(
  request: RoutedRequest,
  { clientGone = request.signal, mayBeSilent }: RequestContext,
  services: ControlServices,
): Promise<LogLine[]> {
  const tail = queryNumber(request, "limit", MOST_LINES) ?? MOST_LINES;
  const { claim } = await requireRunning(request, services, clientGone);
  const { instanceId } = claim.status ?? {};
  if (instanceId === undefined) return [];
  mayBeSilent?.();
  const asked = { pod: instanceId, container: WORKLOAD_CONTAINER, tail, follow: false, timestamps: true };
  const { kubectl, clock } = services;
  const failure = (stderr: string) => instanceError(stderr, { name: instanceId });
  const log = await podLogs(asked, { kubectl, clock, clientGone, failure });
  return linesOf(await lastBytes(log));
}

async function lastBytes({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    while (bytes - (chunks[0]?.byteLength ?? 0) > MOST_BYTES) bytes -= chunks.shift()?.byteLength ?? 0;
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** A line that was cut has no time at its start, and is left out. */
function linesOf(text: string): LogLine[] {
  return text.split("\n").flatMap((line) => {
    const space = line.indexOf(" ");
    const timestamp = line.slice(0, space);
    return space > 0 && !Number.isNaN(Date.parse(timestamp)) ? [{ timestamp, message: line.slice(space + 1) }] : [];
  });
}
