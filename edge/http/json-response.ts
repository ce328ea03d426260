/** What a JSON response may have beside its body. */
export interface JsonResponseOptions {
  /** @default 200 */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * The part of `Response` that the edge reads, over a JSON text that the adapter sends as it is: what `Response.json` is
 * to Bun and Deno, which make one in a microsecond. Node takes 30 for it and its stream, and as many to read that.
 */
export class JsonResponse {
  readonly status: number;
  readonly headers: Headers;
  /** The body. */
  readonly content: string;

  constructor(body: unknown, { status = 200, headers }: JsonResponseOptions) {
    this.status = status;
    this.headers = new Headers({ "content-type": "application/json", ...headers });
    this.content = JSON.stringify(body);
  }

  async text(): Promise<string> {
    return this.content;
  }

  async json(): Promise<unknown> {
    return JSON.parse(this.content);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return new TextEncoder().encode(this.content).buffer as ArrayBuffer;
  }
}
