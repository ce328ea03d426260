/** A refusal with a status and a message for the caller; the error mapper answers it as `{error: message}`. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Whether the caller's own request leads here and nothing is wrong with the server or the cluster: no error in the
   * log.
   */
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

const MAX_SHOWN = 80;

/** The text in JSON quotes, cut at 80 characters: what a caller sent, safe to show back on one line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);
}
