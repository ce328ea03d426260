/** A call of the bot API that did not succeed; it never holds the token. */
export class MessengerError extends Error {
  override readonly name = "MessengerError";
  /** The server's `error_code`, or the HTTP status of an answer that was no JSON; undefined where none came. */
  readonly code: number | undefined;
  /** The server's own words. */
  readonly description: string;
  /** How long the server asks to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** The supergroup that the group has become. */
  readonly migratedTo: number | undefined;
  /** Whether the server may have carried the call out all the same. */
  readonly uncertain: boolean;

  constructor(
    message: string,
    fields: {
      code?: number | undefined;
      description?: string;
      retryAfterMs?: number | undefined;
      migratedTo?: number | undefined;
      uncertain: boolean;
    },
  ) {
    super(message);
    this.code = fields.code;
    this.description = fields.description ?? "";
    this.retryAfterMs = fields.retryAfterMs;
    this.migratedTo = fields.migratedTo;
    this.uncertain = fields.uncertain;
  }
}
