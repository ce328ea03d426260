/** A refusal with a status and a message for the caller; the error mapper answers it as `{error: message}`. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the caller's own request leads here and nothing is wrong with the server or the cluster: no error in the log. */
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
