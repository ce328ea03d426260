import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import type { CurrentQuotas } from "../../../crds/quotas/follow-quotas.ts";
import { placeOf } from "../../../crds/quotas/room.ts";
import { createDeferred, type Deferred } from "../../../crds/waits.ts";
import { createCounts } from "../../counts.ts";
import type { EventSocket, SocketListener } from "../../http/event-socket.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import type { CallData } from "./call-inside.ts";
import { type OutputEvent, outputEvents } from "./process-output.ts";

/** The subprotocol of browsers, which have to offer one beside the one with the key. */
const TERMINAL_PROTOCOL = "tenancy.terminal";

/**
 * Kubernetes' own, so that its clients fit: a binary message is a channel and its bytes.
 *
 * https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
 */
const KUBERNETES_PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/**
 * The same with a text before output that does not follow on what was sent, so that a client attaches there again; and
 * with texts that say how much input the pod has taken, so that a client can wait for a process that reads slowly.
 */
export const OFFSETS_PROTOCOL = "tenancy.offsets";

export const ATTACH_PROTOCOLS: readonly string[] = [TERMINAL_PROTOCOL, OFFSETS_PROTOCOL, ...KUBERNETES_PROTOCOLS];

const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4, close: 255 } as const;

const MAX_ATTACHMENTS = 1024;
/** What a process may leave unread: a megabyte that is pasted, and more. No runtime but Node can stop a client. */
const MAX_INPUT_BYTES = 2 * 1024 * 1024;
/** How much input is taken between two reports. */
const REPORT_BYTES = 256 * 1024;
/** No more is sent to a client that leaves this unread; then the process waits, or older output is no longer kept. */
const MAX_UNREAD_BYTES = 256 * 1024;
/** Only Bun reports that a client has read. */
const LOOK_AGAIN_MS = 20;

const closeCode = { normal: 1000, stopping: 1012, notRead: 1008, failed: 4500 } as const;

const sizeSchema = v.union([
  v.object({ Width: v.number(), Height: v.number() }),
  v.object({ cols: v.number(), rows: v.number() }),
]);

/** WebSockets that are attached to processes. */
export interface Attachments {
  /** @throws HttpError 503 if there are too many */
  requireRoom(): void;
  /**
   * Takes a place for a client of a tenant.
   *
   * @returns gives it back; further calls do nothing
   * @throws HttpError 503 if there are too many, 429 if the tenant's quota allows no more
   */
  takePlace(tenantId: string): () => void;
  /** Makes the listener of a socket. It takes over the data. */
  attach(opened: {
    /** Its first message, for clients that do not speak a protocol of Kubernetes. */
    readonly process: ApiTypes["Process"];
    readonly data: CallData;
    readonly input: AttachedInput;
    readonly isKubernetes: boolean;
    /** Whether it gets the offsets of output, and how much input was taken. */
    readonly hasOffsets: boolean;
    /** Gives the call up, before its input ends: that end is not the one of the process's input. */
    readonly leave: () => void;
  }): SocketListener;
  /** Closes all of them. */
  close(): void;
}

/** What a client sends, for the program in the pod. */
export interface AttachedInput extends AsyncIterable<Uint8Array> {
  add(message: Uint8Array): void;
  /** Called with the bytes of input that the pod has taken, at the beginning and then at each 256 KiB. */
  onTaken(report: (bytes: number) => void): void;
  readonly waitingBytes: number;
  end(): void;
}

/** Makes an input that waits here until the program in the pod takes it. */
export function createAttachedInput(): AttachedInput {
  let messages: Uint8Array[] = [];
  let waitingBytes = 0;
  let isOver = false;
  let more: Deferred<void> = createDeferred();
  let takenBytes = 0;
  let reportedBytes = 0;
  let report: ((bytes: number) => void) | undefined;

  async function* read(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const taken = messages;
      messages = [];
      for (const message of taken) {
        yield message;
        waitingBytes -= message.length;
        if (message[0] === channel.stdin) takenBytes += message.length - HEAD_BYTES;
        if (takenBytes - reportedBytes < REPORT_BYTES) continue;
        reportedBytes = takenBytes;
        report?.(takenBytes);
      }
      if (messages.length > 0) continue;
      if (isOver) return;
      more = createDeferred();
      await more.promise;
    }
  }

  return {
    add(message) {
      messages.push(message);
      waitingBytes += message.length;
      more.resolve();
    },
    onTaken(next) {
      report = next;
      next(takenBytes);
    },
    end() {
      isOver = true;
      more.resolve();
    },
    get waitingBytes() {
      return waitingBytes;
    },
    [Symbol.asyncIterator]: read,
  };
}

/** Makes the attachments of an edge. */
export function createAttachments({
  clock,
  quotas,
}: {
  clock: Clock;
  /** @default no tenant's terminals are limited */
  quotas?: Pick<CurrentQuotas, "current">;
}): Attachments {
  const sockets = new Set<EventSocket>();
  /** By tenant, with those whose handshake is not over yet. */
  const counts = createCounts();
  let count = 0;

  function requireRoom(): void {
    if (count < MAX_ATTACHMENTS) return;
    throw new HttpError(503, `${MAX_ATTACHMENTS} clients are attached to processes already; try again later`, {
      headers: { "retry-after": "10" },
    });
  }

  return {
    requireRoom,
    takePlace(tenantId) {
      requireRoom();
      const own = counts.of(tenantId);
      const quota = quotas?.current()?.of(tenantId);
      const { terminals } = quota?.limits ?? {};
      if (quota !== undefined && terminals !== undefined && own >= terminals)
        throw new HttpError(
          429,
          `tenant "${tenantId}" has ${own} of ${terminals} terminals open (${placeOf(quota, "terminals")}): close one, or raise the limit`,
          { headers: { "retry-after": "10" } },
        );
      counts.add(tenantId);
      count += 1;
      let isGivenBack = false;
      return () => {
        if (isGivenBack) return;
        isGivenBack = true;
        count -= 1;
        counts.remove(tenantId);
      };
    },
    attach({ process, data, input, isKubernetes, hasOffsets, leave }) {
      /** Where the next output begins if none is missing. */
      const next: { stdout?: number; stderr?: number } = {};
      let socket: EventSocket | undefined;
      let isGone = false;

      async function untilRead(open: EventSocket, most: number): Promise<void> {
        while (open.waitingBytes > most && !isGone)
          await new Promise<void>((resolve) => void clock.after(LOOK_AGAIN_MS, resolve));
      }

      async function send(open: EventSocket): Promise<void> {
        // Before the process, with which input may begin.
        if (hasOffsets) input.onTaken((taken) => !isGone && open.send(JSON.stringify({ type: "input", taken })));
        if (!isKubernetes) open.send(JSON.stringify({ type: "process", process }));
        for await (const event of outputEvents(data)) {
          if (isGone) return;
          if (hasOffsets && event.type !== "process") {
            const { type, offset, bytes } = event;
            if (next[type] !== offset) open.send(JSON.stringify({ type: "offset", output: type, offset }));
            next[type] = offset + bytes.length;
          }
          sendEvent(event, { open, isKubernetes });
          await untilRead(open, MAX_UNREAD_BYTES);
        }
        // A close on Deno drops what waits.
        await untilRead(open, 0);
        open.close(closeCode.normal, "the process has ended");
      }

      return {
        protocols: ATTACH_PROTOCOLS,
        onOpen(open) {
          socket = open;
          sockets.add(open);
          send(open).catch((error: unknown) => {
            if (!isGone) open.close(...closingOf(error));
          });
        },
        onMessage: () => undefined,
        onBinary(bytes) {
          const message = inputOf(bytes);
          if (message === undefined) return;
          input.add(message);
          if (input.waitingBytes > MAX_INPUT_BYTES) socket?.close(closeCode.notRead, "the process does not read");
        },
        onClose() {
          if (isGone) return;
          isGone = true;
          if (socket !== undefined) sockets.delete(socket);
          leave();
          input.end();
        },
      };
    },
    close() {
      for (const socket of sockets) socket.close(closeCode.stopping, "the server is stopping; attach again");
    },
  };
}

function sendEvent(event: OutputEvent, { open, isKubernetes }: { open: EventSocket; isKubernetes: boolean }): void {
  if (event.type === "process") {
    const end = isKubernetes ? statusOf(event.process) : event;
    open.send(isKubernetes ? withChannel(channel.status, Buffer.from(JSON.stringify(end))) : JSON.stringify(end));
  } else open.send(withChannel(channel[event.type], event.bytes));
}

function withChannel(number: number, bytes: Uint8Array): Uint8Array {
  const message = Buffer.allocUnsafe(bytes.length + 1);
  message[0] = number;
  message.set(bytes, 1);
  return message;
}

/**
 * A client's message as the program in the pod reads it: the channel, the length in 4 bytes, and the bytes. Undefined
 * for what means nothing.
 */
function inputOf(message: Uint8Array): Uint8Array | undefined {
  switch (message[0]) {
    case channel.stdin:
      return message.length === 1 ? undefined : withLength(channel.stdin, message.subarray(1));
    case channel.resize: {
      const size = sizeOf(message.subarray(1));
      return size && withLength(channel.resize, Buffer.from(JSON.stringify(size)));
    }
    case channel.close:
      return message[1] === channel.stdin ? withLength(channel.close, new Uint8Array()) : undefined;
    default:
      return undefined;
  }
}

/** Of a message with input: its channel, and its length in 4 bytes. */
const HEAD_BYTES = 5;

function withLength(number: number, bytes: Uint8Array): Uint8Array {
  const message = Buffer.allocUnsafe(bytes.length + HEAD_BYTES);
  message[0] = number;
  message.writeUInt32BE(bytes.length, 1);
  message.set(bytes, HEAD_BYTES);
  return message;
}

function sizeOf(bytes: Uint8Array): { cols: number; rows: number } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    // A client's mistake changes no size.
    return undefined;
  }
  const parsed = v.safeParse(sizeSchema, value);
  if (!parsed.success) return undefined;
  const [cols, rows] =
    "cols" in parsed.output ? [parsed.output.cols, parsed.output.rows] : [parsed.output.Width, parsed.output.Height];
  const isSize = (cells: number) => Number.isInteger(cells) && cells > 0 && cells <= 1000;
  return isSize(cols) && isSize(rows) ? { cols, rows } : undefined;
}

/**
 * The Status with which Kubernetes says how a command has ended.
 *
 * Follows
 * https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go
 */
function statusOf({ exitCode, signal }: ApiTypes["Process"]): object {
  if (exitCode === 0) return { metadata: {}, status: "Success" };
  const message =
    signal === undefined ? `command terminated with non-zero exit code: ${exitCode}` : `command ended by ${signal}`;
  const causes = exitCode === undefined ? [] : [{ reason: "ExitCode", message: String(exitCode) }];
  return { metadata: {}, status: "Failure", reason: "NonZeroExitCode", message, details: { causes } };
}

/** The close code of an error is 4000 and the status that a request would get. */
function closingOf(error: unknown): [code: number, reason: string] {
  if (!(error instanceof HttpError)) return [closeCode.failed, "internal error"];
  // A reason has at most 123 bytes.
  return [
    4000 + error.status,
    Buffer.from(error.message)
      .subarray(0, 120)
      .toString("utf8")
      .replace(/\uFFFD$/, ""),
  ];
}
