import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { sleep } from "../../../crds/waits.ts";
import { type MessengerClient, MessengerError } from "./messenger-client.ts";

/** How many ids above the newest known one are checked: messages in between, of all chats with the same numbering. */
const MAX_ASKED = { near: 100, far: 1_000 };
/** A server that does not support the method may answer with 5xx. */
const MAX_FAULTS = 4;

/**
 * Finds the id of the bot's own message in the chat above `after`; undefined if there is none among the next 100 (1000
 * if it may be far), or the server does not report it.
 *
 * No method of the bot API reads a chat. Removing the markup of a message without one changes nothing and shows whose
 * message it is: for the bot's own message "is not modified", for another's "can't be edited", and for none "not found"
 * (docs/decisions/messenger.md#a-reply-is-announced-before-it-is-sent).
 *
 * @throws MessengerError if the server cannot be reached or refuses the token, or the signal's reason
 */
export async function findSent(options: {
  client: MessengerClient;
  chatId: number;
  after: number;
  /** Whether its id may be far above that. @default false */
  far?: boolean | undefined;
  clock: Clock;
  random: () => number;
  signal: AbortSignal;
}): Promise<number | undefined> {
  const { client, chatId, after, far = false, clock, random, signal } = options;
  const backoff = createBackoff({ initialMs: 800, maxMs: 10_000, random });
  const last = after + (far ? MAX_ASKED.far : MAX_ASKED.near);
  let faults = 0;
  for (let messageId = after + 1; messageId <= last; ) {
    try {
      await client.clearMarkup({ chatId, messageId }, signal);
      return messageId;
    } catch (error) {
      if (!(error instanceof MessengerError)) throw error;
      const { code, description, retryAfterMs } = error;
      if (code === undefined || code === 401) throw error;
      if (retryAfterMs !== undefined) {
        await sleep(retryAfterMs, { clock, signal });
      } else if (code >= 500) {
        if (++faults > MAX_FAULTS) return undefined;
        await sleep(backoff.next(), { clock, signal });
      } else if (code !== 400) {
        return undefined;
      } else if (/message is not modified/i.test(description)) {
        return messageId;
      } else {
        messageId++;
      }
    }
  }
  return undefined;
}

/** Number of supergroups and channels that are remembered. */
const MAX_CHATS = 256;

interface Place {
  readonly chatId: number;
  /** As in an update; the successor of a group is a `supergroup`. */
  readonly chatType: string;
}

/** {@link MessageIds} as stored in the state. */
export interface SavedMessageIds {
  readonly shared: number;
  /** Chat id and message id; chats with the latest messages last. */
  readonly chats: readonly (readonly [number, number])[];
}

/**
 * The newest message ids, by numbering: a message that the bot sends now will be above.
 *
 * A supergroup or channel counts its own messages; all private chats and basic groups of a bot share one count. Ids
 * only grow (https://core.telegram.org/tdlib/docs/classtd_1_1td__api_1_1message.html: they order a chat's history).
 */
export interface MessageIds {
  /** Records a message of a person, or one of the bot's. */
  saw(message: Place & { messageId?: number | undefined }): void;
  /** The newest id of the bot's own messages in the chat, or one above it; undefined if it was dropped. */
  newest(chat: Place): number | undefined;
  /** Sets whether the server has messages that were not fetched yet, whose ids are above the newest. */
  isBehind(behind: boolean): void;
  /** Records one of the bot's own messages, sent just now: no unseen message is above it. */
  sent(message: Place & { messageId?: number | undefined }): void;
  /** Whether the next message may get an id far above the newest. */
  isFarFrom(chat: Place): boolean;
  save(): SavedMessageIds;
}

export function createMessageIds(saved: SavedMessageIds = { shared: 0, chats: [] }): MessageIds {
  let { shared } = saved;
  const chats = new Map(saved.chats);
  let behind = false;
  let own = false;
  const isShared = ({ chatType }: Place) => chatType === "private" || chatType === "group";
  function saw({ messageId, ...chat }: Place & { messageId?: number | undefined }): void {
    if (messageId === undefined) return;
    if (isShared(chat)) {
      shared = Math.max(shared, messageId);
      return;
    }
    const newest = Math.max(messageId, chats.get(chat.chatId) ?? 0);
    chats.delete(chat.chatId);
    chats.set(chat.chatId, newest);
    const [oldest] = chats.keys();
    if (chats.size > MAX_CHATS && oldest !== undefined) chats.delete(oldest);
  }

  return {
    saw,
    isBehind(now) {
      behind = now;
    },
    sent(message) {
      saw(message);
      if (message.messageId !== undefined && isShared(message)) own = true;
    },
    isFarFrom: (chat) => isShared(chat) && behind && !own,
    newest(chat) {
      if (isShared(chat)) return shared;
      return chats.get(chat.chatId) ?? (chats.size < MAX_CHATS ? 0 : undefined);
    },
    save: () => ({ shared, chats: [...chats] }),
  };
}
