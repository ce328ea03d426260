import type { IncomingMessage, ServerResponse } from "node:http";

/**
 * The part of `Request` that the edge reads, over node:http. Headers, body and signal are created on demand, since
 * building a real `Request` for each call halves the throughput. Methods that the edge never calls (`clone`,
 * `formData`) are missing.
 */
export class NodeRequest {
  readonly method: string;
  readonly url: string;
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  #headers: Headers | undefined;
  #body: ReadableStream<Uint8Array> | null | undefined;
  #gone: AbortController | undefined;

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    this.method = incoming.method ?? "GET";
    this.url = urlOf(incoming);
    this.#incoming = incoming;
    this.#outgoing = outgoing;
  }

  /** The client's address, while it is connected. */
  get peer(): string | undefined {
    return this.#incoming.socket.remoteAddress;
  }

  get headers(): Headers {
    if (this.#headers === undefined) {
      this.#headers = new Headers();
      const raw = this.#incoming.rawHeaders;
      for (let at = 0; at + 1 < raw.length; at += 2) this.#headers.append(raw[at] ?? "", raw[at + 1] ?? "");
    }
    return this.#headers;
  }

  get body(): ReadableStream<Uint8Array> | null {
    if (this.#body === undefined) {
      const { headers } = this.#incoming;
      const framed = headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
      this.#body = framed ? bodyOf(this.#incoming) : null;
    }
    return this.#body;
  }

  /** Aborted when the connection closes before the response is complete. */
  get signal(): AbortSignal {
    if (this.#gone === undefined) {
      const gone = new AbortController();
      this.#gone = gone;
      const outgoing = this.#outgoing;
      const check = (): void => {
        if (!outgoing.writableFinished) gone.abort();
      };
      if (outgoing.destroyed) check();
      else outgoing.once("close", check);
    }
    return this.#gone.signal;
  }

  // With events, since an iterator over the stream costs more than all the rest of reading a short body.
  arrayBuffer(): Promise<ArrayBuffer> {
    const incoming = this.#incoming;
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      const closed = (): void => {
        if (!incoming.readableEnded) reject(new Error("the connection was closed before the body's end"));
      };
      // The stream emits nothing more then, so a second reader would wait forever.
      if (incoming.readableEnded) return reject(new TypeError("the body has been read already"));
      if (incoming.destroyed) return closed();
      incoming
        .on("data", (chunk: Buffer) => chunks.push(chunk))
        .once("end", () => resolve(wholeOf(chunks)))
        .once("error", reject)
        .once("close", closed);
    });
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.arrayBuffer());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }
}

function wholeOf(chunks: readonly Buffer[]): ArrayBuffer {
  const whole = Buffer.concat(chunks);
  return whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.byteLength) as ArrayBuffer;
}

/** The request's URL; a target that is a whole URL (a proxy's form) is used unchanged. */
function urlOf({ url = "/", headers }: IncomingMessage): string {
  return url.startsWith("/") ? `http://${headers.host ?? "localhost"}${url}` : url;
}

/**
 * A cancelled body is read to its end and dropped: destroying it, as `Readable.toWeb` would, destroys the response as
 * well.
 */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  const chunks = incoming.iterator({ destroyOnReturn: false });
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done === true) controller.close();
      else controller.enqueue(value as Uint8Array);
    },
    async cancel() {
      await chunks.return?.();
      incoming.resume();
    },
  });
}
