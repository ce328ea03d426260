import * as v from "valibot";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { JsonBoundError, parseForeignJson } from "../../../crds/foreign-json.ts";
import { TimeLimitError, withTimeLimit } from "../../../crds/waits.ts";
import { createPoster } from "../post-json.ts";

/**
 * The calls of the bot API that the adapter makes (https://core.telegram.org/bots/api#available-methods).
 *
 * @throws MessengerError from each
 */
export interface MessengerClient {
  /** https://core.telegram.org/bots/api#deletewebhook; the updates waiting on the server stay. */
  deleteWebhook(signal: AbortSignal): Promise<void>;
  /** https://core.telegram.org/bots/api#getupdates; confirms all updates below `offset`. */
  getUpdates(
    poll: { offset: number | undefined; limit: number; timeoutSeconds: number; allowedUpdates: readonly string[] },
    signal: AbortSignal,
  ): Promise<readonly unknown[]>;
  /** https://core.telegram.org/bots/api#sendmessage; resolves to the message's id if the server returns one. */
  sendMessage(message: OutgoingMessage, signal: AbortSignal): Promise<number | undefined>;
  /** https://core.telegram.org/bots/api#sendchataction */
  showTyping(chat: { chatId: number; threadId?: number | undefined }, signal: AbortSignal): Promise<void>;
  /**
   * https://core.telegram.org/bots/api#editmessagereplymarkup without a markup: changes nothing on a message without
   * one.
   */
  clearMarkup(message: { chatId: number; messageId: number }, signal: AbortSignal): Promise<void>;
}

export interface OutgoingMessage {
  readonly chatId: number;
  readonly text: string;
  /** Topic of a forum. */
  readonly threadId?: number | undefined;
  /** Message that this one visibly replies to. */
  readonly replyTo?: number | undefined;
}

/** A failed call of the bot API; it never contains the token. */
export class MessengerError extends Error {
  override readonly name = "MessengerError";
  /**
   * The server's `error_code`, or the HTTP status of a response that is not JSON of the bot API; undefined without a
   * response.
   */
  readonly code: number | undefined;
  /** The server's message. */
  readonly description: string;
  /** Milliseconds that the server asks to wait. */
  readonly retryAfterMs: number | undefined;
  /** The supergroup that replaced the group. */
  readonly migratedTo: number | undefined;
  /** Whether the server may have executed the call nevertheless. */
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

/** The part of `fetch` that the bot API needs: a POST of JSON text; redirects are not followed. */
export type Fetch = (
  url: string,
  init: { readonly body: string; readonly signal: AbortSignal },
) => Promise<{ readonly status: number; text(): Promise<string> }>;

const CALL_LIMIT_MS = 30_000;
/** How long a long poll may be silent beyond its own timeout. */
const POLL_GRACE_MS = 15_000;
const MAX_SHOWN = 300;

/** https://core.telegram.org/bots/api#making-requests; a malformed optional field counts as absent. */
const answerSchema = v.variant("ok", [
  v.object({ ok: v.literal(true), result: v.optional(v.unknown()) }),
  v.object({
    ok: v.literal(false),
    error_code: v.fallback(v.optional(v.number()), undefined),
    description: v.fallback(v.string(), ""),
    parameters: v.fallback(
      v.object({
        retry_after: v.fallback(v.optional(v.pipe(v.number(), v.finite(), v.minValue(0))), undefined),
        migrate_to_chat_id: v.fallback(v.optional(v.pipe(v.number(), v.safeInteger())), undefined),
      }),
      {},
    ),
  }),
]);
const updatesSchema = v.array(v.unknown());
const sentSchema = v.object({ message_id: v.pipe(v.number(), v.safeInteger(), v.minValue(1)) });

/** @param options.apiBaseUrl without a trailing slash */
export function createMessengerClient(options: {
  token: string;
  apiBaseUrl: string;
  clock: Clock;
  fetch: Fetch;
}): MessengerClient {
  const { token, apiBaseUrl, clock, fetch } = options;

  async function call(method: string, parameters: object, signal: AbortSignal, ms = CALL_LIMIT_MS): Promise<unknown> {
    try {
      const { status, text } = await withTimeLimit({ what: method, ms, clock, signal }, async (limited) => {
        const url = `${apiBaseUrl}/bot${token}/${method}`;
        const response = await fetch(url, { body: JSON.stringify(parameters), signal: limited });
        return { status: response.status, text: await response.text() };
      });
      return resultOf({ method, token, status, text });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof MessengerError) throw error;
      // Not the cause or its unchanged text: both can contain the URL, and with it the token.
      const reason = error instanceof TimeLimitError ? `no response within ${ms / 1000} s` : reasonOf(error);
      const isUnsent = error instanceof NetworkError && !error.requestWasSent;
      throw new MessengerError(`${method}: ${withoutToken(reason, token)}`, { uncertain: !isUnsent });
    }
  }

  return {
    async deleteWebhook(signal) {
      await call("deleteWebhook", {}, signal);
    },
    async getUpdates({ offset, limit, timeoutSeconds, allowedUpdates }, signal) {
      const parameters = { offset, limit, timeout: timeoutSeconds, allowed_updates: allowedUpdates };
      const updates = await call("getUpdates", parameters, signal, timeoutSeconds * 1000 + POLL_GRACE_MS);
      if (v.is(updatesSchema, updates)) return updates;
      throw new MessengerError("getUpdates: the result is not an array", { uncertain: false });
    },
    async sendMessage({ chatId, text, threadId, replyTo }, signal) {
      const quoted = replyTo === undefined ? undefined : { message_id: replyTo, allow_sending_without_reply: true };
      const parameters = { chat_id: chatId, text, message_thread_id: threadId, reply_parameters: quoted };
      const sent = v.safeParse(sentSchema, await call("sendMessage", parameters, signal));
      return sent.success ? sent.output.message_id : undefined;
    },
    async showTyping({ chatId, threadId }, signal) {
      await call("sendChatAction", { chat_id: chatId, action: "typing", message_thread_id: threadId }, signal);
    },
    async clearMarkup({ chatId, messageId }, signal) {
      await call("editMessageReplyMarkup", { chat_id: chatId, message_id: messageId }, signal);
    },
  };
}

/** A hundred updates are a few hundred kilobytes. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;
/** Enough for a hundred messages with the maximum of entities, each with the message that it replies to. */
const MAX_VALUES = 200_000;
/** Less than the server's own timeout of idle connections. */
const KEEP_ALIVE_MS = 30_000;

/**
 * A `fetch` for the bot API that sends a request once. Deno's own sends a POST again if the connection ends before the
 * response, which would post a second message in the chat
 * (docs/decisions/messenger.md#requests-go-over-our-own-connections).
 */
export function createPostFetch(options: { clock: Clock }): Fetch {
  const post = createPoster({ clock: options.clock, keepAliveMs: KEEP_ALIVE_MS });
  return async (url, { body, signal }) => {
    const reply = await post({
      url: new URL(url),
      body,
      maxReplyBytes: MAX_REPLY_BYTES,
      // Errors of the bot API have a body that says more than the status.
      checkStatus: () => undefined,
      signal,
    });
    return { status: reply.status, text: async () => Buffer.from(reply.body).toString("utf8") };
  };
}

function resultOf(answer: { method: string; token: string; status: number; text: string }): unknown {
  const { method, token, status } = answer;
  const parsed = v.safeParse(answerSchema, parseAnswer(answer));
  if (!parsed.success) {
    // For example, the error page of a gateway before the server, or a truncated body.
    throw new MessengerError(`${method}: HTTP ${status}, not JSON of the bot API`, {
      code: status,
      uncertain: true,
    });
  }
  if (parsed.output.ok) return parsed.output.result;
  const { error_code: code, parameters } = parsed.output;
  const description = withoutToken(parsed.output.description, token);
  throw new MessengerError(`${method}: ${description} (${code})`, {
    code,
    description,
    retryAfterMs: parameters.retry_after === undefined ? undefined : parameters.retry_after * 1000,
    migratedTo: parameters.migrate_to_chat_id,
    uncertain: code === undefined || code < 400 || code >= 500,
  });
}

/** @returns undefined if it is not JSON @throws MessengerError if it exceeds a limit */
function parseAnswer({ method, status, text }: { method: string; status: number; text: string }): unknown {
  try {
    return parseForeignJson(text, { characters: MAX_REPLY_BYTES, values: MAX_VALUES });
  } catch (error) {
    if (error instanceof JsonBoundError)
      throw new MessengerError(`${method}: the answer ${error.message}`, { code: status, uncertain: true });
    return undefined;
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "no answer";
  const { cause } = error;
  return cause instanceof Error && cause.message !== "" ? cause.message : error.message;
}

/** The start of the text, without the bot's token and without the secret half of it. */
function withoutToken(text: string, token: string): string {
  const secret = token.slice(token.indexOf(":") + 1);
  return [token, encodeURIComponent(token), secret]
    .filter((part) => part !== "")
    .reduce((rest, part) => rest.replaceAll(part, "<token>"), text)
    .slice(0, MAX_SHOWN);
}
