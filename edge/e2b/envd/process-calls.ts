import * as v from "valibot";
import { quote } from "../../../crds/quote.ts";
import type { Attachments } from "../../api/inside/attachments.ts";
import { bytesOf } from "../../api/inside/byte-text.ts";
import { ENDLESS_MS, type Inside } from "../../api/inside/call-inside.ts";
import { podAnswer, podLines } from "../../api/inside/pod-answer.ts";
import { outputEvents, processOf } from "../../api/inside/process-output.ts";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Route, RoutedRequest } from "../../http/router.ts";
import {
  type Call,
  clientStreamRoute,
  type StreamServices,
  serverStreamRoute,
  unaryRoute,
} from "../connect/connect-route.ts";
import type { ServerEvents } from "../connect/event-stream.ts";
import { processEvents } from "./process-events.ts";
import * as schemas from "./process-schemas.ts";
import { type FindSandbox, ID_HEADER, podPath, requireOwnUser, userOf } from "./sandbox.ts";

const SERVICE = "/process.Process";
const keepAlive = { event: { keepalive: {} } };
/** The program in the pod takes 1 MiB, in which some characters take six bytes. */
const MAX_START_BYTES = 1_000_000;
/** What is kept of a process for those who list it. */
const MAX_NOTE_BYTES = 32 * 1024;
/** The channels of what a process is given, as the program in the pod reads it. */
const channel = { stdin: 0, resize: 4, terminal: 5, close: 255 } as const;

const noted = v.object({ note: v.optional(v.string()) });
const noteSchema = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({
    tag: v.optional(v.string()),
    config: v.optional(
      v.object({
        cmd: v.string(),
        args: v.array(v.string()),
        envs: v.record(v.string(), v.string()),
        cwd: v.optional(v.string()),
      }),
    ),
  }),
);
type Note = v.InferOutput<typeof noteSchema>;

/** A process, with what its starter has noted of it. A tenant can change the note. */
interface NotedProcess {
  readonly process: ApiTypes["Process"];
  readonly note: Note;
}

/** The calls of processes. */
export function processCalls(
  find: FindSandbox,
  { attachments, ...services }: StreamServices & { readonly attachments: Pick<Attachments, "takePlace"> },
): Route[] {
  const stream = { ...services, keepAlive };

  /** Opens a stream that counts as an open terminal of its tenant until it ends. */
  async function attached(inside: Inside, open: () => Promise<ServerEvents>): Promise<ServerEvents> {
    const leavePlace = attachments.takePlace(inside.tenantId);
    try {
      return whenLeft(await open(), leavePlace);
    } catch (error) {
      leavePlace();
      throw error;
    }
  }

  /** Finds the sandbox of a call, and the number of the process that it names. */
  async function selected({ request, context, process }: SelectedCall): Promise<{ inside: Inside; pid: number }> {
    const inside = await find(request, context);
    const pid = await pidOf(process, inside);
    request.audit?.about({ pid: String(pid) });
    return { inside, pid };
  }

  async function give(call: SelectedCall & Pick<Call<unknown>, "limitMs">, messages: Uint8Array[]): Promise<object> {
    const { inside, pid } = await selected(call);
    await inside.ask("input", { pid }, { input: each(messages), ...limited(call) });
    return {};
  }

  return [
    serverStreamRoute(
      {
        path: `${SERVICE}/Start`,
        schema: schemas.startMessage,
        async handle({ message, request, context, limitMs }) {
          const sandboxId = request.headers.get(ID_HEADER) ?? "";
          const parameters = startParameters(message, { limitMs, sandboxId });
          const inside = await find(request, context);
          await requireOwnUser(userOf(request), inside);
          const options = { failure: { mayHaveActed: true }, limitMs: limitMs ?? ENDLESS_MS };
          const open = async () => followed(await inside.open("run", parameters, options), request);
          return await (message.pty ? attached(inside, open) : open());
        },
      },
      stream,
    ),
    serverStreamRoute(
      {
        path: `${SERVICE}/Connect`,
        schema: schemas.selectMessage,
        async handle({ message, request, context, limitMs }) {
          const { inside, pid } = await selected({ request, context, process: message.process });
          const call = { pid, follow: true, hold: true };
          const options = { limitMs: limitMs ?? ENDLESS_MS };
          return await attached(inside, async () => followed(await inside.open("attach", call, options), request));
        },
      },
      stream,
    ),
    unaryRoute({
      path: `${SERVICE}/List`,
      act: "look",
      schema: schemas.listMessage,
      async handle({ request, context }) {
        const all = await listed(await find(request, context));
        return { processes: all.filter(({ process }) => process.state === "running").map(shownProcess) };
      },
    }),
    unaryRoute({
      path: `${SERVICE}/Update`,
      schema: schemas.updateMessage,
      async handle({ message: { process, pty }, ...call }) {
        const sizes = pty ? [inputPart(channel.resize, Buffer.from(JSON.stringify(pty.size)))] : [];
        return await give({ ...call, process }, sizes);
      },
    }),
    unaryRoute({
      path: `${SERVICE}/SendInput`,
      schema: schemas.inputMessage,
      handle: async ({ message: { process, input }, ...call }) => await give({ ...call, process }, [inputOf(input)]),
    }),
    clientStreamRoute({
      path: `${SERVICE}/StreamInput`,
      schema: schemas.streamInputMessage,
      async handle({ message: messages, ...call }) {
        const first = await messages.next();
        const process = first.done === true ? undefined : first.value.start?.process;
        if (process === undefined) throw new HttpError(400, "body: the first message must have a start");
        const { inside, pid } = await selected({ ...call, process });
        await inside.ask("input", { pid }, { input: inputsOf(messages), ...limited(call) });
        return {};
      },
    }),
    unaryRoute({
      path: `${SERVICE}/SendSignal`,
      schema: schemas.signalMessage,
      async handle({ message: { process, signal }, ...call }) {
        const { inside, pid } = await selected({ ...call, process });
        await inside.ask("signal", { pid, signal }, { failure: { mayHaveActed: true }, ...limited(call) });
        return {};
      },
    }),
    unaryRoute({
      path: `${SERVICE}/CloseStdin`,
      schema: schemas.selectMessage,
      handle: async ({ message: { process }, ...call }) =>
        await give({ ...call, process }, [inputPart(channel.close, new Uint8Array())]),
    }),
  ];
}

type SelectedCall = Pick<Call<unknown>, "request" | "context"> & { readonly process: schemas.Selector };

function limited({ limitMs }: Pick<Call<unknown>, "limitMs">): { limitMs?: number } {
  return limitMs === undefined ? {} : { limitMs };
}

function followed({ answer, data }: Awaited<ReturnType<Inside["open"]>>, request: RoutedRequest): ServerEvents {
  const process = processOf(answer);
  request.audit?.about({ pid: String(process.pid) });
  return { events: processEvents(process, outputEvents(data)), leave: () => data.return() };
}

function whenLeft({ events, leave }: ServerEvents, left: () => void): ServerEvents {
  return {
    events: {
      async next() {
        try {
          const next = await events.next();
          if (next.done === true) left();
          return next;
        } catch (error) {
          left();
          throw error;
        }
      },
    },
    leave() {
      left();
      return leave();
    },
  };
}

/** What the program in the pod is asked to run. @param limitMs after which the process is ended. @default never */
function startParameters(
  { process, pty, tag, stdin }: schemas.StartMessage,
  { limitMs, sandboxId }: { limitMs: number | undefined; sandboxId: string },
): object {
  const { cmd, args, envs, cwd } = process;
  const given = { ...(tag != null && { tag }) };
  const full = JSON.stringify({ ...given, config: { cmd, args, envs, ...(cwd != null && { cwd }) } });
  const parameters = {
    command: [cmd, ...args].map(bytesOf),
    // The first two are in each sandbox of E2B: programs look for them.
    env: Object.entries({ E2B_SANDBOX: "true", E2B_SANDBOX_ID: sandboxId, ...envs }).map(([name, value]) =>
      bytesOf(`${name}=${value}`),
    ),
    cwd: podPath(cwd ?? ""),
    // A terminal's input is open anyway. Older SDKs leave this out and expect an input.
    keepInput: stdin !== false,
    anyShell: true,
    note: Buffer.byteLength(full) > MAX_NOTE_BYTES ? JSON.stringify(given) : full,
    ...(pty && { tty: pty.size }),
    ...(limitMs !== undefined && { timeoutSeconds: limitMs / 1000 }),
  };
  if (Buffer.byteLength(JSON.stringify(parameters)) > MAX_START_BYTES)
    throw new HttpError(
      400,
      `process: its command and its variables have more than ${MAX_START_BYTES} bytes; write them to a file first`,
    );
  return parameters;
}

async function listed(inside: Inside): Promise<NotedProcess[]> {
  const { data } = await inside.open("processes", {});
  return (await podLines(data)).map((line) => {
    const { note = "{}" } = podAnswer(noted, line);
    const parsed = v.safeParse(noteSchema, note);
    return { process: processOf(line), note: parsed.success ? parsed.output : {} };
  });
}

function shownProcess({ process, note }: NotedProcess): object {
  const { pid, command, cwd } = process;
  const [cmd = "", ...args] = command;
  const { config = { cmd, args, envs: {}, cwd }, tag } = note;
  return { pid, config, ...(tag !== undefined && { tag }) };
}

/** @throws HttpError 404 if no process that runs has the tag */
async function pidOf({ pid, tag }: schemas.Selector, inside: Inside): Promise<number> {
  if (pid != null) return pid;
  if (tag == null) throw new HttpError(400, "body.process: must name a process by its pid or its tag");
  const all = await listed(inside);
  const newest = all.findLast(({ process, note }) => process.state === "running" && note.tag === tag);
  if (newest === undefined) throw new HttpError(404, `no process that runs has the tag ${quote(tag)}`);
  return newest.process.pid;
}

async function* inputsOf(
  messages: AsyncIterable<v.InferOutput<typeof schemas.streamInputMessage>>,
): AsyncGenerator<Uint8Array, void> {
  for await (const { data, keepalive } of messages) {
    if (data) yield inputOf(data.input);
    else if (!keepalive) throw new HttpError(400, "body: a message must have data or a keepalive");
  }
}

function inputOf({ stdin, pty }: schemas.ProcessInput): Uint8Array {
  return stdin == null ? inputPart(channel.terminal, pty ?? new Uint8Array()) : inputPart(channel.stdin, stdin);
}

/** A channel, a length in 4 bytes, and so many bytes. */
function inputPart(number: number, bytes: Uint8Array): Uint8Array {
  const part = Buffer.allocUnsafe(bytes.length + 5);
  part[0] = number;
  part.writeUInt32BE(bytes.length, 1);
  part.set(bytes, 5);
  return part;
}

async function* each<T>(values: readonly T[]): AsyncGenerator<T, void> {
  yield* values;
}
