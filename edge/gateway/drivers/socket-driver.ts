import type { Clock } from "../../../crds/client/clock.ts";
import { sleep, withTimeLimit } from "../../../crds/waits.ts";
import {
  callUrl,
  type Driver,
  type DriverCall,
  DriverError,
  type DriverReply,
  HANDSHAKE_MS,
  MAX_REPLY_BYTES,
  RETRY_MS,
  type TriggerPayload,
  throwIfAborted,
  timeoutMs,
} from "./driver.ts";
import { type JsonSocket, openJsonSocket } from "./json-socket.ts";

/** One end of a conversation with an agent. */
export interface Conversation {
  readonly socket: JsonSocket;
  readonly call: DriverCall;
  readonly clock: Clock;
  /** Limits the current step. */
  readonly signal: AbortSignal;
}

/** A protocol that an agent speaks over WebSocket. */
export interface AgentProtocol {
  /** Default of `driverOptions.path`. */
  readonly path: string;
  /** Headers of the upgrade request. */
  headers?(call: DriverCall): Record<string, string>;
  /** Prepares a new connection for a prompt; sends nothing of the event. @throws NotReadyError, DriverError */
  handshake(conversation: Conversation): Promise<void>;
  /** Sends the prompt, and resolves to the complete answer. @throws DriverError */
  ask(conversation: Conversation): Promise<string>;
}

/** An agent that reports that it is still starting. */
export class NotReadyError extends Error {
  override readonly name = "NotReadyError";
  /** Milliseconds before the next attempt. */
  readonly retryAfterMs: number;

  constructor(message: string, options: { retryAfterMs: number }) {
    super(message);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Number of retries while an agent reports that it is starting. */
const MAX_STARTING_RETRIES = 20;

/**
 * Makes a driver from a protocol: one connection per event, a time limit for the handshake, and one retry if the
 * connection failed before anything was sent.
 *
 * @throws the signal's reason when it is aborted, from the returned driver
 */
export function createSocketDriver(protocol: AgentProtocol, { clock }: { clock: Clock }): Driver {
  return async (call) => {
    let asked = false;
    const limit = { what: "the agent's answer", ms: timeoutMs(call), clock, signal: call.signal };
    try {
      return await withTimeLimit(limit, async (signal) => {
        const socket = await connect(protocol, { call, clock, signal });
        try {
          asked = true;
          return replyOf(await protocol.ask({ socket, call, clock, signal }));
        } finally {
          socket.close();
        }
      });
    } catch (error) {
      throwIfAborted(call);
      throw driverError(error, { nothingSent: !asked });
    }
  };
}

/** A connection that did not open. */
class UnopenedError extends DriverError {}

/** An agent's output as it arrives. */
export interface BoundedText {
  /** @throws DriverError if the total exceeds 1 MiB */
  append(piece: string): void;
  /** Replaces the text so far. @throws DriverError as `append` */
  replace(text: string): void;
  toString(): string;
}

export function createBoundedText(): BoundedText {
  let pieces: string[] = [];
  let size = 0;

  function append(piece: string): void {
    size += Buffer.byteLength(piece);
    if (size > MAX_REPLY_BYTES) {
      throw new DriverError(`the agent's answer is larger than ${MAX_REPLY_BYTES} bytes`, { nothingSent: false });
    }
    pieces.push(piece);
  }

  return {
    append,
    replace(text) {
      pieces = [];
      size = 0;
      append(text);
    },
    toString: () => pieces.join(""),
  };
}

/** The prompt for an agent: the person's text, or the event's data as JSON. */
export function promptText({ text, data }: TriggerPayload): string {
  return text ?? JSON.stringify(data ?? null);
}

/** @throws as `handshake` does, after the retries that its errors allow */
async function connect(protocol: AgentProtocol, settings: Omit<Conversation, "socket">): Promise<JsonSocket> {
  const { call, clock, signal } = settings;
  let reconnected = false;
  for (let starting = 0; ; ) {
    try {
      return await connectOnce(protocol, settings);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof NotReadyError && starting < MAX_STARTING_RETRIES) {
        starting += 1;
        await sleep(error.retryAfterMs, { clock, signal });
      } else if (error instanceof UnopenedError && error.nothingSent && !reconnected) {
        reconnected = true;
        await sleep(RETRY_MS, { clock, signal });
      } else throw error;
      await call.confirm();
    }
  }
}

function connectOnce(protocol: AgentProtocol, settings: Omit<Conversation, "socket">): Promise<JsonSocket> {
  const { call, clock, signal } = settings;
  const limit = { what: "the handshake with the agent", ms: HANDSHAKE_MS, clock, signal };
  return withTimeLimit(limit, async (limited) => {
    const socket = await openJsonSocket({
      url: callUrl(call, { scheme: "ws", path: protocol.path }),
      headers: protocol.headers?.(call) ?? {},
      signal: limited,
    }).catch((cause: unknown) => {
      const { message, nothingSent } = driverError(cause, { nothingSent: true });
      throw new UnopenedError(message, { nothingSent, cause: cause instanceof DriverError ? cause.cause : cause });
    });
    try {
      await protocol.handshake({ socket, call, clock, signal: limited });
      return socket;
    } catch (error) {
      socket.close();
      throw error;
    }
  });
}

function replyOf(text: string): DriverReply {
  return { status: 200, contentType: "text/plain; charset=utf-8", body: new TextEncoder().encode(text), text };
}

function driverError(cause: unknown, { nothingSent }: { nothingSent: boolean }): DriverError {
  if (cause instanceof DriverError) return cause;
  return new DriverError(cause instanceof Error ? cause.message : String(cause), { nothingSent, cause });
}
