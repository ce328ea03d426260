import * as assert from "uvu/assert";

/** A message of a stream: its flags and its content. */
export interface Message {
  readonly isEnd: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: a test names what it expects.
  readonly content: any;
}

/** A client of envd, as E2B's SDKs are: Connect's protocol with JSON. */
export interface EnvdClient {
  /** Makes a unary call; throws `code: message` if it fails. */
  // biome-ignore lint/suspicious/noExplicitAny: a test names what it expects.
  unary(call: string, message: object, headers?: Record<string, string>): Promise<any>;
  /** Opens the stream of a call's answers. */
  stream(call: string, message: object, init?: StreamInit): Promise<AsyncGenerator<Message, void>>;
  /** Sends bytes as they are. */
  send(path: string, init?: RequestInit): Promise<Response>;
}

interface StreamInit {
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

/** @param headers of all requests */
export function envdClient(url: string, headers: Record<string, string>): EnvdClient {
  async function send(path: string, init: RequestInit = {}): Promise<Response> {
    return await fetch(`${url}${path}`, { ...init, headers: { ...headers, ...(init.headers as object) } });
  }
  return {
    send,
    async unary(call, message, more = {}) {
      const response = await send(`/${call}`, {
        method: "POST",
        headers: { "content-type": "application/json", "connect-protocol-version": "1", ...more },
        body: JSON.stringify(message),
      });
      const answer = JSON.parse(await response.text());
      if (!response.ok) throw new Error(`${answer.code}: ${answer.message}`);
      return answer;
    },
    async stream(call, message, { headers: more = {}, signal } = {}) {
      const response = await send(`/${call}`, {
        method: "POST",
        headers: { "content-type": "application/connect+json", ...more },
        body: envelope(message),
        ...(signal && { signal }),
      });
      assert.is(response.status, 200);
      assert.is(response.headers.get("content-type"), "application/connect+json");
      return messagesOf(response);
    },
  };
}

export function envelope(message: object, flags = 0): Uint8Array<ArrayBuffer> {
  const json = Buffer.from(JSON.stringify(message));
  const bytes = new Uint8Array(5 + json.length);
  bytes[0] = flags;
  new DataView(bytes.buffer).setUint32(1, json.length);
  bytes.set(json, 5);
  return bytes;
}

/** The messages of a response. Fails for one after the last, and without a last one. */
export async function* messagesOf({ body }: Response): AsyncGenerator<Message, void> {
  let bytes = Buffer.alloc(0);
  let isOver = false;
  for await (const piece of body ?? []) {
    bytes = Buffer.concat([bytes, piece]);
    while (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt32BE(1)) {
      const end = 5 + bytes.readUInt32BE(1);
      assert.not(isOver, "a message after the last");
      isOver = bytes[0] === 2;
      yield { isEnd: isOver, content: JSON.parse(bytes.toString("utf8", 5, end)) };
      bytes = bytes.subarray(end);
    }
  }
  assert.ok(isOver, "the stream broke off");
}

/** What a stream of a process has brought in the end. */
export interface Ran {
  pid: number;
  stdout: string;
  stderr: string;
  pty: string;
  end: object | undefined;
  error: { code: string; message: string } | undefined;
}

/** Reads a stream of a process to its end. */
export async function ran(messages: AsyncIterable<Message>): Promise<Ran> {
  const outputs = { stdout: "", stderr: "", pty: "" };
  const found: Pick<Ran, "pid" | "end" | "error"> = { pid: 0, end: undefined, error: undefined };
  for await (const { isEnd, content } of messages) {
    if (isEnd) found.error = content.error;
    else if (content.event.start !== undefined) found.pid = content.event.start.pid;
    else if (content.event.end !== undefined) found.end = content.event.end;
    else
      for (const name of ["stdout", "stderr", "pty"] as const)
        outputs[name] += Buffer.from(content.event.data?.[name] ?? "", "base64").toString("latin1");
  }
  return { ...found, ...outputs };
}
