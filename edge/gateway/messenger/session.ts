import type { AdapterContext } from "../adapter.ts";
import type { BotIdentity } from "./bot-lease.ts";
import type { MessengerClient } from "./messenger-client.ts";
import type { Progress } from "./progress.ts";
import type { StateWriter } from "./saved-state.ts";
import type { MessageIds } from "./sent-messages.ts";

/** What the steps of one session, the time for which a process is the bot's only poller, work with. */
export interface Session {
  readonly context: AdapterContext;
  readonly bot: BotIdentity;
  readonly client: MessengerClient;
  readonly progress: Progress;
  readonly writer: StateWriter;
  readonly messageIds: MessageIds;
  /** Does the work when all earlier work of the chat is done: of two messages under way nobody could tell which one arrived. */
  readonly inChatOrder: (chatId: number, work: () => Promise<void>) => Promise<void>;
  readonly random: () => number;
  /** Aborted when the session is to end: nothing new begins, runs and waits are given up. */
  readonly stopping: AbortSignal;
  /** Aborted a little later: messages and writes that were under way are cut. */
  readonly ended: AbortSignal;
  /** When the session began, in milliseconds since the epoch. */
  readonly beganAt: number;
}
