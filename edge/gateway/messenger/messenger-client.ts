import { Api } from "grammy/web";
import type { Clock } from "../../../crds/client/clock.ts";
import { type Fetch, fetchAnswer } from "./fetch-answer.ts";
import { MessengerError } from "./messenger-error.ts";
import { toMessengerError } from "./to-messenger-error.ts";
import { withinLimit } from "./within-limit.ts";

const CALL_LIMIT_MS = 30_000;
/** How much longer than its own time a long poll may be silent. */
const POLL_GRACE_MS = 15_000;
/** Longer than any call: the limits here are counted by our own clock, grammy's never comes into it. */
const NEVER_SECONDS = 86_400;

export interface OutgoingMessage {
  readonly chatId: number;
  readonly text: string;
  /** Topic of a forum. */
  readonly threadId?: number | undefined;
  /** Message that this one answers visibly. */
  readonly replyTo?: number | undefined;
}

/** The calls of the bot API that the adapter makes (https://core.telegram.org/bots/api#available-methods). @throws MessengerError from each */
export interface MessengerClient {
  /** https://core.telegram.org/bots/api#deletewebhook; what waits on the server stays. */
  deleteWebhook(signal: AbortSignal): Promise<void>;
  /** https://core.telegram.org/bots/api#getupdates; confirms all updates below `offset`. */
  getUpdates(
    poll: { offset: number | undefined; limit: number; timeoutSeconds: number; allowedUpdates: readonly string[] },
    signal: AbortSignal,
  ): Promise<readonly unknown[]>;
  /** https://core.telegram.org/bots/api#sendmessage; resolves with the message's id where the server tells it. */
  sendMessage(message: OutgoingMessage, signal: AbortSignal): Promise<number | undefined>;
  /** https://core.telegram.org/bots/api#sendchataction */
  showTyping(chat: { chatId: number; threadId?: number | undefined }, signal: AbortSignal): Promise<void>;
  /** https://core.telegram.org/bots/api#editmessagereplymarkup without a markup: changes nothing where there is none. */
  clearMarkup(message: { chatId: number; messageId: number }, signal: AbortSignal): Promise<void>;
}

type Raw = Api["raw"];
/** grammy's declarations name the AbortSignal of a package for old versions of Node; what it takes is any. */
type GrammySignal = Parameters<Raw["getMe"]>[0];

/** A client over grammy's `Api` (docs/decisions/740-grammy-over-our-own-connections.md). */
export function createMessengerClient(options: {
  token: string;
  /** Without a slash at its end. */
  apiBaseUrl: string;
  clock: Clock;
  fetch: Fetch;
}): MessengerClient {
  const { token, apiBaseUrl, clock, fetch } = options;
  const { raw } = new Api(token, {
    apiRoot: apiBaseUrl,
    timeoutSeconds: NEVER_SECONDS,
    fetch: async (url: string, init: RequestInit) => {
      const answer = await fetchAnswer(fetch, url, init);
      return { json: async () => answer };
    },
  } as ConstructorParameters<typeof Api>[1]);

  async function call<T>(
    method: string,
    signal: AbortSignal,
    work: (signal: GrammySignal) => Promise<T>,
    limitMs = CALL_LIMIT_MS,
  ): Promise<T> {
    try {
      return await withinLimit((limited) => work(limited as GrammySignal), { limitMs, clock, signal });
    } catch (error) {
      signal.throwIfAborted();
      throw toMessengerError(error, { method, token });
    }
  }

  return {
    async deleteWebhook(signal) {
      await call("deleteWebhook", signal, (limited) => raw.deleteWebhook({}, limited));
    },
    async getUpdates({ offset, limit, timeoutSeconds, allowedUpdates }, signal) {
      const parameters = { limit, timeout: timeoutSeconds, allowed_updates: [...allowedUpdates] };
      const updates: unknown = await call(
        "getUpdates",
        signal,
        (limited) =>
          raw.getUpdates(
            (offset === undefined ? parameters : { ...parameters, offset }) as Parameters<Raw["getUpdates"]>[0],
            limited,
          ),
        timeoutSeconds * 1000 + POLL_GRACE_MS,
      );
      if (!Array.isArray(updates)) {
        throw new MessengerError("getUpdates: the result is not an array", { uncertain: false });
      }
      return updates;
    },
    async sendMessage({ chatId, text, threadId, replyTo }, signal) {
      const sent: unknown = await call("sendMessage", signal, (limited) =>
        raw.sendMessage(
          {
            chat_id: chatId,
            text,
            ...(threadId !== undefined && { message_thread_id: threadId }),
            ...(replyTo !== undefined && {
              reply_parameters: { message_id: replyTo, allow_sending_without_reply: true },
            }),
          },
          limited,
        ),
      );
      const id = typeof sent === "object" && sent !== null && "message_id" in sent ? sent.message_id : undefined;
      return typeof id === "number" && Number.isSafeInteger(id) && id > 0 ? id : undefined;
    },
    async showTyping({ chatId, threadId }, signal) {
      const topic = threadId === undefined ? {} : { message_thread_id: threadId };
      await call("sendChatAction", signal, (limited) =>
        raw.sendChatAction({ chat_id: chatId, action: "typing", ...topic }, limited),
      );
    },
    async clearMarkup({ chatId, messageId }, signal) {
      await call("editMessageReplyMarkup", signal, (limited) =>
        raw.editMessageReplyMarkup({ chat_id: chatId, message_id: messageId }, limited),
      );
    },
  };
}
