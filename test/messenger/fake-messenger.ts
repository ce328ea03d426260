import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { BotAccount } from "./bot-account.ts";
import type { Fault, FaultKind } from "./fault.ts";

type Parameters = Record<string, unknown>;
interface Answer {
  status: number;
  body: string;
}
/** The connection ends without an answer. */
class Dropped extends Error {}

/**
 * A server of the bot API for tests, over HTTP or called in the process: long polls, offsets that confirm, 409 for the
 * earlier of two polls and while a webhook is set, 401 and 404 for wrong tokens, message ids as Telegram counts them,
 * and faults on demand. It keeps every message that it took.
 */
export class FakeMessenger {
  /** When each method was called, in milliseconds since the epoch. */
  readonly calls = new Map<string, number[]>();
  /** Parameters of the polls, in order. */
  readonly polls: Parameters[] = [];
  /** Polls that were ended since another began. */
  conflicts = 0;
  readonly #clock: Clock;
  readonly #bots = new Map<string, BotAccount>();
  readonly #polling = new Map<string, (answer: Answer) => void>();
  #faults: { fault: Fault; left: number }[] = [];
  #server: Server | undefined;

  constructor(options: { clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  /** Listens on loopback; resolves with the address for `config.apiBaseUrl`. */
  async start(port = 0): Promise<string> {
    const server = createServer((request, response) => void this.#serve(request, response));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  /** The bot of a token, made where there was none; other tokens are refused. */
  bot(token: string, options: { firstUpdateId?: number } = {}): BotAccount {
    let bot = this.#bots.get(token);
    if (bot === undefined) {
      bot = new BotAccount(options);
      this.#bots.set(token, bot);
    }
    return bot;
  }

  /** Gives the bot another token, as a renewal does; the old one is refused. */
  renewToken(old: string, renewed: string): void {
    const bot = this.bot(old);
    this.#bots.delete(old);
    this.#bots.set(renewed, bot);
  }

  fault(fault: Fault): void {
    this.#faults.push({ fault, left: fault.times ?? 1 });
  }

  clearFaults(): void {
    this.#faults = [];
  }

  times(method: string): readonly number[] {
    return this.calls.get(method) ?? [];
  }

  count(method: string): number {
    return this.times(method).length;
  }

  /** `fetch` to this server without a socket, for tests that own the time. */
  readonly fetch = async (
    url: string,
    init: { readonly body?: unknown; readonly signal?: AbortSignal | null | undefined },
  ): Promise<{ status: number; text(): Promise<string> }> => {
    const signal = init.signal ?? new AbortController().signal;
    signal.throwIfAborted();
    let end: () => void = () => undefined;
    const aborted = new Promise<never>((_, reject) => {
      end = () => reject(signal.reason);
      signal.addEventListener("abort", end, { once: true });
    });
    try {
      const path = new URL(url).pathname;
      const parameters = JSON.parse(String(init.body ?? "{}")) as Parameters;
      const { status, body } = await Promise.race([this.#handle(path, parameters, signal), aborted]);
      return { status, text: async () => body };
    } catch (error) {
      if (error instanceof Dropped) throw new TypeError(`fetch failed: ${url}`);
      throw error;
    } finally {
      signal.removeEventListener("abort", end);
    }
  };

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString();
      const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
      const parameters = text === "" ? Object.fromEntries(searchParams) : (JSON.parse(text) as Parameters);
      const { status, body } = await this.#handle(pathname, parameters, gone.signal);
      if (gone.signal.aborted) return;
      response.writeHead(status, { "content-type": "application/json" });
      response.end(body);
    } catch (error) {
      if (!(error instanceof Dropped) && !gone.signal.aborted) response.writeHead(500).end();
      else request.socket.destroy();
    }
  }

  async #handle(path: string, parameters: Parameters, gone: AbortSignal): Promise<Answer> {
    const [, token = "", method = ""] = /^\/bot([^/]+)\/(\w+)$/.exec(path) ?? [];
    const times = this.calls.get(method) ?? [];
    times.push(this.#clock.now());
    this.calls.set(method, times);
    const fault = this.#takeFault(method, parameters);
    if (fault?.kind === "answer") return fault;
    if ((fault?.kind === "drop" || fault?.kind === "stall") && !fault.done) return this.#cut(fault, gone);
    const answer = await this.#answer({ token, method, parameters, gone });
    if (fault?.kind === "drop" || fault?.kind === "stall") return this.#cut(fault, gone);
    if (fault?.kind === "slow") await this.#wait(fault.delayMs, gone);
    return answer;
  }

  #takeFault(method: string, parameters: Parameters): FaultKind | undefined {
    const found = this.#faults.find(
      ({ fault, left }) => left > 0 && fault.method === method && (fault.when?.(parameters) ?? true),
    );
    if (found !== undefined) found.left--;
    return found?.fault.fault;
  }

  async #cut(fault: { kind: "drop" | "stall" }, gone: AbortSignal): Promise<never> {
    if (fault.kind === "stall") await this.#wait(24 * 3_600_000, gone);
    throw new Dropped();
  }

  async #answer(call: { token: string; method: string; parameters: Parameters; gone: AbortSignal }): Promise<Answer> {
    const { token, method, parameters } = call;
    const bot = this.#bots.get(token);
    if (bot === undefined) return /^\d+:/.test(token) ? failed(401, "Unauthorized") : failed(404, "Not Found");
    switch (method) {
      case "deleteWebhook":
        bot.webhook = undefined;
        if (parameters.drop_pending_updates === true) bot.updates = [];
        return done(true);
      case "getUpdates":
        return this.#getUpdates(bot, call);
      case "sendMessage":
        return sendMessage(bot, parameters);
      case "sendChatAction":
        bot.typing.push(Number(parameters.chat_id));
        return done(true);
      case "editMessageReplyMarkup":
        return editMarkup(bot, parameters);
      case "getMe":
        return done({ id: Number(token.split(":")[0]), is_bot: true, first_name: "fake" });
      default:
        return failed(404, "Not Found: method not found");
    }
  }

  async #getUpdates(
    bot: BotAccount,
    call: { token: string; parameters: Parameters; gone: AbortSignal },
  ): Promise<Answer> {
    const { token, parameters, gone } = call;
    this.polls.push(parameters);
    if (bot.webhook !== undefined) {
      return failed(
        409,
        "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
      );
    }
    const earlier = this.#polling.get(token);
    if (earlier !== undefined) {
      this.conflicts++;
      earlier(
        failed(
          409,
          "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
        ),
      );
    }
    const offset = parameters.offset === undefined ? undefined : Number(parameters.offset);
    const limit = Number(parameters.limit ?? 100);
    const timeoutMs = Number(parameters.timeout ?? 0) * 1000;
    const updates = () => done(bot.takeUpdates(offset, limit));
    if (bot.takeUpdates(offset, limit).length > 0 || timeoutMs === 0) return updates();
    return new Promise<Answer>((resolve) => {
      const end = (answer: Answer) => {
        if (this.#polling.get(token) === end) this.#polling.delete(token);
        cancel();
        gone.removeEventListener("abort", leave);
        resolve(answer);
      };
      const leave = () => end(done([]));
      const cancel = this.#clock.after(timeoutMs, () => end(updates()));
      gone.addEventListener("abort", leave, { once: true });
      this.#polling.set(token, end);
      bot.onUpdate = () => this.#polling.get(token)?.(updates());
    });
  }

  #wait(delayMs: number, gone: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        gone.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.#clock.after(delayMs, end);
      gone.addEventListener("abort", end, { once: true });
    });
  }
}

function sendMessage(bot: BotAccount, parameters: Parameters): Answer {
  const text = String(parameters.text ?? "");
  const chat = bot.chat(Number(parameters.chat_id));
  if (chat === undefined) return failed(400, "Bad Request: chat not found");
  const refusal = bot.refusalOf(chat.id);
  if (refusal !== undefined) {
    const migrated = refusal.migrateTo === undefined ? undefined : { migrate_to_chat_id: refusal.migrateTo };
    return failed(refusal.code, refusal.description, migrated);
  }
  if (text.trim() === "") return failed(400, "Bad Request: message text is empty");
  if (text.length > 4096) return failed(400, "Bad Request: message is too long");
  const thread = parameters.message_thread_id;
  const reply = parameters.reply_parameters as { message_id?: number } | undefined;
  const threadId = thread === undefined ? undefined : Number(thread);
  const message_id = bot.take({ chat, text, threadId, replyTo: reply?.message_id });
  return done({ message_id, chat, date: 1_767_225_600, text });
}

function editMarkup(bot: BotAccount, parameters: Parameters): Answer {
  const owner = bot.ownerOf(Number(parameters.chat_id), Number(parameters.message_id));
  if (owner === undefined) return failed(400, "Bad Request: message to edit not found");
  if (owner === "person") return failed(400, "Bad Request: message can't be edited");
  const same = "specified new message content and reply markup are exactly the same";
  return failed(
    400,
    `Bad Request: message is not modified: ${same} as a current content and reply markup of the message`,
  );
}

function done(result: unknown): Answer {
  return { status: 200, body: JSON.stringify({ ok: true, result }) };
}

function failed(code: number, description: string, parameters?: object): Answer {
  const body = { ok: false, error_code: code, description, ...(parameters !== undefined && { parameters }) };
  return { status: code, body: JSON.stringify(body) };
}
