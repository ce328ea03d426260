import { eitherSignal } from "./call.ts";

/** The part of a WebSocket that is used here, as browsers, Node 22, Bun, Deno and the package `ws` have it. */
export interface SocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
}

export type SocketConstructor = new (url: string, protocols: string[]) => SocketLike;

export interface SocketSettings {
  readonly origin: string;
  readonly key?: string | (() => string | Promise<string>) | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly WebSocket?: SocketConstructor | undefined;
}

export interface SocketListener {
  onText(text: string): void;
  onBytes?(bytes: Uint8Array): void;
}

/** How a socket ended. `code` is 1006 if the connection was lost. */
export interface Closing {
  readonly code: number;
  readonly reason: string;
  /** Whether it was open before. */
  readonly wasOpen: boolean;
}

export interface OpenedSocket {
  readonly socket: SocketLike;
  isOpen(): boolean;
  readonly closed: Promise<Closing>;
}

export interface Sockets {
  /**
   * Connects.
   *
   * @param target path and query
   * @param options.protocols the first that the server speaks is used; the key is offered beside them, since browsers
   * cannot send headers
   * @param options.signal closes it
   */
  open(
    target: string,
    options: {
      readonly protocols: readonly string[];
      readonly listener: SocketListener;
      readonly onOpen?: (socket: SocketLike) => void;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<OpenedSocket>;
}

export function createSockets(settings: SocketSettings): Sockets {
  return {
    async open(target, { protocols, listener, onOpen, signal: own }) {
      const signal = eitherSignal(settings.signal, own);
      const Constructor = settings.WebSocket ?? (await findConstructor());
      const key = typeof settings.key === "function" ? await settings.key() : settings.key;
      signal?.throwIfAborted();
      const offered = [...protocols, ...(key === undefined ? [] : [`tenancy.bearer.${base64Url(key)}`])];
      const socket = new Constructor(`${settings.origin.replace(/^http/, "ws")}${target}`, offered);
      socket.binaryType = "arraybuffer";
      let wasOpen = false;
      socket.onopen = () => {
        wasOpen = true;
        onOpen?.(socket);
      };
      // The end follows.
      socket.onerror = () => undefined;
      socket.onmessage = ({ data }: { data: unknown }) => {
        if (typeof data === "string") listener.onText(data);
        else listener.onBytes?.(new Uint8Array(data as ArrayBuffer));
      };
      const closed = new Promise<Closing>((resolve) => {
        const abort = (): void => {
          socket.close();
          // The server may not answer.
          resolve({ code: 1006, reason: "", wasOpen });
        };
        signal?.addEventListener("abort", abort, { once: true });
        socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
          signal?.removeEventListener("abort", abort);
          resolve({ code, reason, wasOpen });
        };
      });
      return { socket, isOpen: () => wasOpen, closed };
    },
  };
}

/** @throws Error on Node 20 without the package `ws` */
async function findConstructor(): Promise<SocketConstructor> {
  const known = (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
  if (known !== undefined) return known;
  // Hidden from bundlers for browsers, which have it built in.
  const name = "ws";
  try {
    const { WebSocket } = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as {
      WebSocket: SocketConstructor;
    };
    return WebSocket;
  } catch (cause) {
    throw new Error(
      "Cannot open a WebSocket: this runtime has none; install the package ws, or give createClient one",
      {
        cause,
      },
    );
  }
}

function base64Url(text: string): string {
  const characters = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte));
  return btoa(characters.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
