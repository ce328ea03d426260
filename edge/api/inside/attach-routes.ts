import type { Clock } from "../../../crds/client/clock.ts";
import { type SocketListener, selectProtocol } from "../../http/event-socket.ts";
import { requireHandshake } from "../../http/handshake.ts";
import type { PageCheck } from "../../http/page-check.ts";
import { type PathRule, pathParam, queryText } from "../../http/parameters.ts";
import type { RequestContext, RoutedRequest } from "../../http/router.ts";
import { untilCallerEnds } from "../../http/session.ts";
import type { ApiRoute } from "../api-route.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import { ATTACH_PROTOCOLS, type Attachments, createAttachedInput, OFFSETS_PROTOCOL } from "./attachments.ts";
import { ENDLESS_MS, type Inside, type InsidePlace } from "./call-inside.ts";
import { processOf } from "./process-output.ts";
import { offsetSchemas, offsetsOf, pidRule } from "./process-query.ts";

export interface AttachServices {
  readonly attachments: Attachments;
  readonly checkPage: PageCheck;
  readonly clock: Clock;
}

const DEFAULT_SIZE = { cols: 80, rows: 24 };
const cellsRule: PathRule = {
  accepts: (value) => /^[1-9]\d{0,3}$/.test(value) && Number(value) <= 1000,
  says: "a size is a whole number from 1 to 1000",
};
const cellsSchema = (what: string, value: number): OpenApiSchema => ({
  ...{ type: "integer", minimum: 1, maximum: 1000, default: value },
  description: `${what} of the client's terminal.`,
});
const protocolText =
  'Binary messages are a channel and its bytes, as in Kubernetes\' v5.channel.k8s.io, at most 64 KiB: to the process 0 (input), 4 (size, `{"cols","rows"}`) and 255 with 0 (end of the input), from it 1 (stdout), 2 (stderr) and 3 (how it ended). With the subprotocol tenancy.terminal, or none, the process is sent as a text first and last, in place of 3. tenancy.offsets is the same with a text `{type: "offset", output, offset}` before output that does not follow on the one before, and with `{type: "input", taken}`, the bytes of input that the pod has taken, first and at each 256 KiB. Closed with 1000 after its end, otherwise with 4000 and the status that a request would get.';

/** The WebSockets of processes. */
export function attachRoutes({ base, access, query, errors, find }: InsidePlace, services: AttachServices): ApiRoute[] {
  const { attachments, checkPage, clock } = services;

  /** Opens a socket on a process that `open` finds or starts, once all else is in order. */
  async function answer(
    request: RoutedRequest,
    context: RequestContext,
    pidOf: (inside: Inside) => Promise<number>,
    parameters: object,
  ): Promise<Response> {
    checkPage(request);
    const accept = requireHandshake(request, { upgrade: context.upgrade, protocols: ATTACH_PROTOCOLS });
    attachments.requireRoom();
    const gone = new AbortController();
    // The socket outlives the request.
    const inside = await find(request, { ...context, clientGone: gone.signal });
    const leavePlace = attachments.takePlace(inside.tenantId);
    let listener: SocketListener | undefined;
    try {
      const pid = await pidOf(inside);
      request.audit?.about({ pid: String(pid) });
      const input = createAttachedInput();
      const call = { pid, follow: true, input: true, ...parameters };
      const { answer: process, data } = await inside.open("attach", call, { input, limitMs: ENDLESS_MS });
      const protocol = selectProtocol(request, ATTACH_PROTOCOLS);
      const isKubernetes = protocol?.endsWith(".k8s.io") === true;
      const hasOffsets = protocol === OFFSETS_PROTOCOL;
      listener = attachments.attach({
        ...{ process: processOf(process), data, input, isKubernetes, hasOffsets },
        leave() {
          gone.abort();
          leavePlace();
        },
      });
      return accept(request.caller === undefined ? listener : untilCallerEnds(listener, request.caller, clock));
    } catch (error) {
      listener?.onClose();
      leavePlace();
      throw error;
    }
  }

  const socket = {
    takes: ["upgrade", "sec-websocket-version", "sec-websocket-key"],
    status: 101,
    answer: "websocket",
  } as const;
  return [
    {
      method: "GET",
      path: `${base}/processes/:pid/attach`,
      access,
      summary: "Attach to a process",
      description: `A WebSocket. Several can be attached to one process. ${protocolText}`,
      query: { ...query, ...offsetSchemas },
      ...socket,
      errors: [404, 409, 410, 426, 429, 503, 504, ...errors.filter((code) => code !== 429)],
      async handle(request, context) {
        const pid = Number(pathParam(request, "pid", pidRule));
        return await answer(request, context, async () => pid, offsetsOf(request));
      },
    },
    {
      method: "GET",
      path: `${base}/terminal`,
      access,
      summary: "Open a terminal in an instance",
      description: `A WebSocket with a login shell of the image, or a shell of the tools if it has none. The first text names its \`pid\`: a client whose connection was lost attaches to that one again within five minutes, and gets the last 64 KiB. At most 20 at once in an instance. ${protocolText}`,
      query: {
        ...query,
        cols: cellsSchema("Columns", DEFAULT_SIZE.cols),
        rows: cellsSchema("Rows", DEFAULT_SIZE.rows),
      },
      ...socket,
      errors: [404, 409, 410, 426, 429, 503, 504, ...errors.filter((code) => code !== 429)],
      async handle(request, context) {
        const [cols, rows] = (["cols", "rows"] as const).map((name) =>
          Number(queryText(request, name, cellsRule) ?? DEFAULT_SIZE[name]),
        );
        const tty = { cols, rows };
        const start = async (inside: Inside) =>
          processOf(await inside.ask("start", { loginShell: true, background: true, tty })).pid;
        return await answer(request, context, start, {});
      },
    },
  ];
}
