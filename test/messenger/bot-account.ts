/** A chat as the bot API shows it (https://core.telegram.org/bots/api#chat). */
export interface FakeChat {
  id: number;
  type: "private" | "group" | "supergroup" | "channel";
}

/** A message that the server took from the bot. */
export interface SentMessage {
  readonly chatId: number;
  readonly messageId: number;
  readonly text: string;
  readonly threadId: number | undefined;
  readonly replyTo: number | undefined;
  /** Chat's newest message of a person when this one came. */
  readonly at: number;
}

/** What a bot has on the server: chats, messages and updates, numbered as Telegram numbers them. */
export class BotAccount {
  readonly sent: SentMessage[] = [];
  readonly typing: number[] = [];
  /** Waiting for confirmation, in order. */
  updates: { update_id: number; [type: string]: unknown }[] = [];
  /** Every update below it was confirmed. */
  confirmed = 0;
  webhook: string | undefined;
  /** Called when an update arrives. */
  onUpdate: () => void = () => undefined;
  nextUpdateId: number;
  readonly #ids = new Map<number | "shared", number>();
  readonly #owners = new Map<string, "bot" | "person">();
  readonly #chats = new Map<number, FakeChat>();
  readonly #refusals = new Map<number, { code: number; description: string; migrateTo?: number }>();

  constructor(options: { firstUpdateId?: number } = {}) {
    this.nextUpdateId = options.firstUpdateId ?? 1000;
  }

  /** A person writes; returns the update's id. */
  write(options: {
    chat: FakeChat;
    text?: string;
    from?: object;
    date?: number;
    /** Fields added to the message. */
    with?: object;
  }): number {
    const {
      chat,
      text,
      from = { id: Math.abs(chat.id), is_bot: false, first_name: "A" },
      date = 1_767_225_600,
    } = options;
    const message_id = this.#nextId(chat, "person");
    const message = { message_id, date, chat, from, ...(text !== undefined && { text }), ...options.with };
    return this.push({ message });
  }

  /** Adds an update of any content, malformed ones too; returns its id. */
  push(content: Record<string, unknown>): number {
    const update_id = this.nextUpdateId++;
    this.updates.push({ update_id, ...content });
    this.onUpdate();
    return update_id;
  }

  /** Makes the server refuse messages to the chat, as when a person blocked the bot. */
  refuse(chatId: number, refusal: { code: number; description: string; migrateTo?: number } | undefined): void {
    if (refusal === undefined) this.#refusals.delete(chatId);
    else this.#refusals.set(chatId, refusal);
  }

  refusalOf(chatId: number): { code: number; description: string; migrateTo?: number } | undefined {
    return this.#refusals.get(chatId);
  }

  know(chat: FakeChat): void {
    this.#chats.set(chat.id, chat);
  }

  chat(id: number): FakeChat | undefined {
    return this.#chats.get(id);
  }

  /** The bot's message is in the chat from here on. */
  take(message: { chat: FakeChat; text: string; threadId: number | undefined; replyTo: number | undefined }): number {
    const { chat, text, threadId, replyTo } = message;
    const messageId = this.#nextId(chat, "bot");
    this.sent.push({ chatId: chat.id, messageId, text, threadId, replyTo, at: this.nextUpdateId });
    return messageId;
  }

  ownerOf(chatId: number, messageId: number): "bot" | "person" | undefined {
    return this.#owners.get(`${chatId} ${messageId}`);
  }

  /** Confirms what is below the offset, and returns up to `limit` of the rest. */
  takeUpdates(offset: number | undefined, limit: number): object[] {
    if (offset !== undefined && offset > 0) {
      const last = this.updates.at(-1)?.update_id ?? this.nextUpdateId - 1;
      // After a new numbering, offsets of the old one are beyond all that there is: then nothing is confirmed by them.
      if (offset <= last + 1) {
        this.updates = this.updates.filter((update) => update.update_id >= offset);
        this.confirmed = Math.max(this.confirmed, offset);
      }
    }
    return this.updates.slice(0, limit);
  }

  #nextId(chat: FakeChat, owner: "bot" | "person"): number {
    this.know(chat);
    const counter = chat.type === "private" || chat.type === "group" ? "shared" : chat.id;
    const id = (this.#ids.get(counter) ?? 0) + 1;
    this.#ids.set(counter, id);
    this.#owners.set(`${chat.id} ${id}`, owner);
    return id;
  }
}
