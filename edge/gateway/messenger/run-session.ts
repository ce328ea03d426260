import { createPause, linkSignals, type Pause, withTimeLimit } from "../../../crds/waits.ts";
import type { AdapterContext } from "../adapter.ts";
import { answerUpdate, refuseUpdates } from "./answer-update.ts";
import type { BotIdentity } from "./bot-lease.ts";
import { type ChatQueues, createChatQueues } from "./chat-queues.ts";
import { type MessengerClient, MessengerError } from "./messenger-client.ts";
import { pollUpdates } from "./poll-updates.ts";
import type { PolledBots } from "./polled-bots.ts";
import type { BotUpdate } from "./read-update.ts";
import { openSession, type Session } from "./session.ts";

const CHATS_AT_ONCE = 16;
/** How many of them may belong to one tenant. */
const CHATS_OF_A_TENANT = 4;
/** Messages of a chat or tenant that may wait when there is no room for others'. */
const WAITING_OF_ONE = 20;
/** How long messages and writes in progress may take when the session ends. */
const GRACE_MS = 5_000;
const CONFIRM_LIMIT_MS = 2_000;
/** With at least this many held updates the poller fetches more at once instead of after its pause. */
const FEW = 50;

export interface SessionOptions {
  readonly context: AdapterContext;
  readonly bot: BotIdentity;
  readonly client: MessengerClient;
  readonly random: () => number;
  readonly polledBots: PolledBots;
  /** Name and key of the token's Secret, for messages. */
  readonly secret: string;
  /** Aborted when the Lease is lost. */
  readonly held: AbortSignal;
  /** Aborted when the trigger stops, its token changes, or another trigger of the same bot takes over. */
  readonly stop: AbortSignal;
}

/**
 * Polls the bot and answers its messages while this process is the bot's only poller; resolves when the session was
 * stopped and everything in it has ended.
 *
 * @throws SupersededError when another session has taken over, or Error if this one cannot continue
 */
export async function runSession(options: SessionOptions): Promise<void> {
  const { context, held, stop } = options;
  const stopping = linkSignals(stop, held);
  const ended = linkSignals();
  try {
    const session = await openSession(options, {
      stopping: stopping.signal,
      ended: ended.signal,
      fail: stopping.abort,
    });
    const pause = createPause(context.clock);
    const queues = answeringQueues(session, { pause, fail: stopping.abort });
    const refusals = refusingQueues(session, { pause, fail: stopping.abort });
    const makeRoom = (): void => {
      if (refusals.size > 0) return;
      for (const [chatId, updates] of byChat(queues.shed(WAITING_OF_ONE))) {
        context.log.warn({ chat: chatId, messages: updates.length }, "too many messages of a chat, refused");
        refusals.add(updates, { chatId });
      }
    };
    const { updateTypes: allowedUpdates = ["message"], pollTimeoutSeconds = 30 } = context.trigger.spec.config;
    try {
      await pollUpdates(session, {
        queues,
        makeRoom,
        pause,
        polledBots: options.polledBots,
        secret: options.secret,
        allowedUpdates,
        pollTimeoutSeconds,
      });
    } catch (error) {
      // Whatever ended the polling ends the session; if the session was stopped, this is that reason.
      stopping.abort(error);
    }
    const cancel = context.clock.after(GRACE_MS, () => ended.abort(stopping.signal.reason));
    await Promise.all([queues.drain(), refusals.drain()]);
    if (stop.aborted) await confirmAnswered(session, allowedUpdates);
    cancel();
  } catch (error) {
    stopping.abort(error);
  } finally {
    ended.abort(stopping.signal.reason);
    stopping.close();
  }
  if (stop.aborted || held.aborted) return;
  throw stopping.signal.reason;
}

function answeringQueues(
  session: Session,
  { pause, fail }: { pause: Pause; fail: (error: unknown) => void },
): ChatQueues<BotUpdate> {
  const { progress } = session;
  let many = false;
  return createChatQueues<BotUpdate>({
    limit: CHATS_AT_ONCE,
    perTenant: CHATS_OF_A_TENANT,
    async work(update) {
      many ||= progress.held > FEW;
      try {
        await answerUpdate(update, session);
      } catch (error) {
        fail(error);
      }
      const fewNow = progress.held <= FEW;
      if (progress.open === 0 || (many && fewNow)) pause.end();
      if (fewNow) many = false;
    },
  });
}

function refusingQueues(
  session: Session,
  { pause, fail }: { pause: Pause; fail: (error: unknown) => void },
): ChatQueues<readonly BotUpdate[]> {
  return createChatQueues<readonly BotUpdate[]>({
    limit: CHATS_AT_ONCE,
    perTenant: CHATS_AT_ONCE,
    async work(updates) {
      try {
        await refuseUpdates(updates, session);
      } catch (error) {
        fail(error);
      }
      pause.end();
    },
  });
}

function byChat(updates: readonly BotUpdate[]): Map<number, BotUpdate[]> {
  const chats = new Map<number, BotUpdate[]>();
  for (const update of updates) {
    const known = chats.get(update.chatId) ?? [];
    chats.set(update.chatId, known);
    known.push(update);
  }
  return chats;
}

/**
 * Confirms the answered updates to the server at a session's end: another trigger of the same bot, with its own state,
 * would answer them again. If that fails, the next session of this trigger still has its state.
 */
async function confirmAnswered(session: Session, allowedUpdates: readonly string[]): Promise<void> {
  const { context, client, progress, writer, ended } = session;
  const { clock, log } = context;
  // The state of a deleted trigger cannot be written: only the server remembers what was answered since.
  const offset = writer.gone ? progress.offset : writer.written;
  if (offset === undefined) return;
  try {
    await withTimeLimit({ what: "the confirmation", ms: CONFIRM_LIMIT_MS, clock, signal: ended }, (signal) =>
      client.getUpdates({ offset, limit: 1, timeoutSeconds: 0, allowedUpdates }, signal),
    );
  } catch (error) {
    if (!(error instanceof MessengerError) && !ended.aborted)
      log.debug({ error }, "answered updates not confirmed in time");
    else log.debug({ error }, "answered updates not confirmed");
  }
}
