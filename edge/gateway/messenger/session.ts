import { orAborted } from "../../../crds/waits.ts";
import type { AdapterContext } from "../adapter.ts";
import type { BotIdentity } from "./bot-lease.ts";
import type { MessengerClient } from "./messenger-client.ts";
import { createProgress, type Progress } from "./progress.ts";
import { createStateWriter, parseSavedState, type StateWriter } from "./saved-state.ts";
import { createMessageIds, type MessageIds } from "./sent-messages.ts";

/** Shared by the steps of a session: the time in which a process is the bot's only poller. */
export interface Session {
  readonly context: AdapterContext;
  readonly bot: BotIdentity;
  readonly client: MessengerClient;
  readonly progress: Progress;
  readonly writer: StateWriter;
  readonly messageIds: MessageIds;
  /**
   * Runs the work when all earlier work of the chat is done: with two messages in flight it would be unknown which one
   * arrived.
   */
  readonly inChatOrder: <T>(chatId: number, work: () => Promise<T>) => Promise<T>;
  readonly random: () => number;
  /** Aborted when the session must end: nothing new begins; runs and waits end. */
  readonly stopping: AbortSignal;
  /** Aborted a little later: ends messages and writes still in flight. */
  readonly ended: AbortSignal;
  /** When the session began, in milliseconds since the epoch. */
  readonly beganAt: number;
}

/** Reads the state and marks it as this session's: an earlier session can no longer write it. */
export async function openSession(
  { context, bot, client, random }: Pick<Session, "context" | "bot" | "client" | "random">,
  { stopping, ended, fail }: { stopping: AbortSignal; ended: AbortSignal; fail: (error: unknown) => void },
): Promise<Session> {
  const state = await context.readState();
  const saved = parseSavedState(state);
  if (saved === undefined && Object.keys(state).length > 0) {
    context.log.warn({}, "messenger state unreadable, messages may be answered again");
  }
  const ours = saved?.bot === bot.key ? saved : undefined;
  if (saved !== undefined && ours === undefined) context.log.info({}, "bot changed, state discarded");
  const messageIds = createMessageIds(ours?.messages);
  const progress = createProgress({ bot: bot.key, holder: crypto.randomUUID(), saved: ours, messageIds });
  const writer = createStateWriter({ context, save: progress.save, signal: ended, random, onLost: fail });
  await orAborted(writer.commit(), stopping);
  return {
    context,
    bot,
    client,
    progress,
    writer,
    messageIds,
    inChatOrder: createChatOrder(),
    random,
    stopping,
    ended,
    beganAt: context.clock.now(),
  };
}

function createChatOrder(): Session["inChatOrder"] {
  const last = new Map<number, Promise<unknown>>();
  return async (chatId, work) => {
    const mine = (last.get(chatId) ?? Promise.resolve()).then(work);
    const end = mine.catch(() => undefined);
    last.set(chatId, end);
    try {
      return await mine;
    } finally {
      if (last.get(chatId) === end) last.delete(chatId);
    }
  };
}
