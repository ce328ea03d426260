/** A refusal with a status and a message for the caller; the error mapper returns it as `{error: message}`. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the request itself is the cause, and server and cluster are healthy: not an error in the log. */
  readonly expected: boolean;

  constructor(
    status: number,
    message: string,
    options: { headers?: Readonly<Record<string, string>>; cause?: unknown; expected?: boolean } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = status;
    this.headers = options.headers ?? {};
    this.expected = options.expected ?? status < 500;
  }
}
