import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { orAborted, type Pause, sleep } from "../../../crds/waits.ts";
import type { ChatQueues } from "./chat-queues.ts";
import { MessengerError } from "./messenger-client.ts";
import type { PolledBots } from "./polled-bots.ts";
import { type BotUpdate, readUpdate, tenantOf, type UnusableUpdate } from "./read-update.ts";
import type { Session } from "./session.ts";

/** Maximum number of unconfirmed updates that the server returns (https://core.telegram.org/bots/api#getupdates). */
const WINDOW = 100;
/** While updates are unanswered the server answers a poll at once, so that only pauses limit the rate. */
const SHORTEST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 1_000;
/** For a server that delivers the same updates again and again. */
const LONGEST_PAUSE_OF_OLD_NEWS_MS = 30_000;
/** A faster empty response did not wait for updates. */
const QUICK_MS = 1_000;
/** How long a full window may take to empty. */
const FULL_PAUSE_MS = 2_000;

export interface PollOptions {
  readonly queues: ChatQueues<BotUpdate>;
  /** Refuses waiting messages of the chat or tenant with the most, if others find no room. */
  readonly makeRoom: () => void;
  /** Ended when an update is answered. */
  readonly pause: Pause;
  readonly polledBots: PolledBots;
  readonly allowedUpdates: readonly string[];
  readonly pollTimeoutSeconds: number;
  /** Name and key of the token's Secret, for messages. */
  readonly secret: string;
}

/**
 * Polls for updates and queues them, until the session ends.
 *
 * Only stored offsets are sent, since an offset confirms all updates below it. If a window of unanswered updates stays
 * full, the oldest are moved into the state; while that is full too, it does not poll.
 *
 * @throws the reason of `stopping`, or SupersededError
 */
export async function pollUpdates(session: Session, options: PollOptions): Promise<void> {
  const { context, client, progress, writer, stopping, random } = session;
  const { queues, makeRoom, pause, polledBots, allowedUpdates, pollTimeoutSeconds, secret } = options;
  const { clock, log } = context;
  const failures = createPollFailures({ clock, random, secret });
  let pauseMs = SHORTEST_PAUSE_MS;
  let healthy = false;
  for (const update of progress.resumed) enqueue(update);
  await tryCall(failures, session, () => client.deleteWebhook(stopping));

  for (;;) {
    stopping.throwIfAborted();
    if (progress.held >= WINDOW) {
      await pause.wait(FULL_PAUSE_MS, stopping);
      if (progress.held >= WINDOW && !progress.carry()) makeRoom();
      continue;
    }
    if (progress.offset !== writer.written) await orAborted(writer.commit(), stopping);
    const asked = writer.written;
    const askedAt = clock.now();
    const timeoutSeconds = progress.open > 0 ? 0 : pollTimeoutSeconds;
    const batch = await tryCall(failures, session, () =>
      client.getUpdates({ offset: asked, limit: WINDOW, timeoutSeconds, allowedUpdates }, stopping),
    );
    if (batch === undefined) {
      healthy = false;
      continue;
    }
    const healthyNow = failures.succeeded();
    // If two programs poll a bot in turn, each succeeds now and then.
    if (healthyNow) polledBots.answered(context.trigger.metadata.name, pollTimeoutSeconds);
    if (healthyNow && !healthy) context.report(undefined);
    healthy = healthyNow;
    const complete = batch.length < WINDOW;
    session.messageIds.isBehind(!complete);
    const nowSeconds = clock.now() / 1000;
    const { updates, unusable } = progress.admit(batch.map(readUpdate), { asked, complete, nowSeconds });
    for (const update of unusable) logUnusable(update);
    for (const update of updates) {
      if (update.chatType === "private" || update.chatType === "group") session.messageIds.saw(update);
      enqueue(update);
    }
    const news = updates.length > 0 || unusable.some(({ updateId }) => updateId !== undefined);
    if (news) pauseMs = SHORTEST_PAUSE_MS;
    const oldNews = batch.length > 0 && !news && progress.open === 0;
    const quick = batch.length === 0 && clock.now() - askedAt < QUICK_MS;
    if (progress.open > 0 || oldNews || quick) {
      await pause.wait(pauseMs, stopping);
      pauseMs = Math.min(oldNews ? LONGEST_PAUSE_OF_OLD_NEWS_MS : LONGEST_PAUSE_MS, pauseMs * 1.5);
    }
  }

  function enqueue(update: BotUpdate): void {
    queues.add(update, { chatId: update.chatId, tenant: tenantOf(update, context.trigger.spec.tenant) });
  }

  function logUnusable({ updateId, problem }: UnusableUpdate): void {
    log.warn({ update: updateId, problem }, "passed over an update that cannot be answered");
  }
}

/** @returns undefined if the call failed, after the pause that the failure requires */
async function tryCall<T>(failures: PollFailures, session: Session, call: () => Promise<T>): Promise<T | undefined> {
  const { context, stopping } = session;
  const { clock, log } = context;
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof MessengerError)) throw error;
    const { delayMs, removeWebhook, problem, mayPass = false } = failures.failed(error);
    log.warn({ error, delayMs }, "poll failed, retrying");
    if (problem !== undefined) context.report(problem, { mayPass });
    await sleep(delayMs, { clock, signal: stopping });
    if (removeWebhook) await removeAnyWebhook(session);
    return undefined;
  }
}

async function removeAnyWebhook({ client, context, stopping }: Session): Promise<void> {
  try {
    await client.deleteWebhook(stopping);
  } catch (error) {
    stopping.throwIfAborted();
    context.log.warn({ error }, "webhook not removed");
  }
}

/** Failures before the status reports them and the pace slows down. */
const PATIENCE = 5;
const SLOW_MS = 60_000;
/** If two programs poll, each fails in turn, so one success proves nothing. */
const CALM_MS = 120_000;

/** How to continue after a failed call. */
interface Retry {
  readonly delayMs: number;
  /** Whether the webhook that receives the updates must be removed first. */
  readonly removeWebhook: boolean;
  /** For the trigger's status. */
  readonly problem?: string;
  /** Whether the problem may end by itself. */
  readonly mayPass?: boolean;
}

/** Counts failed calls, and decides how to continue (https://core.telegram.org/bots/api#making-requests). */
interface PollFailures {
  failed(error: MessengerError): Retry;
  succeeded(): boolean;
}

function createPollFailures(options: { clock: Clock; random: () => number; secret: string }): PollFailures {
  const { clock, random, secret } = options;
  const backoff = createBackoff({ initialMs: 800, maxMs: 30_000, random });
  let failures = 0;
  let conflicts = 0;
  let conflictAt = 0;

  function paced(count: number, problem: string): Retry {
    const delayMs = backoff.next();
    return { delayMs, removeWebhook: false, ...(count >= PATIENCE && { problem, mayPass: true }) };
  }

  return {
    failed(error) {
      const { code, description, retryAfterMs } = error;
      if (retryAfterMs !== undefined) return { delayMs: retryAfterMs, removeWebhook: false };
      if (code === 401 || code === 404) {
        const problem = `the messenger refuses the bot's token: store the right one in ${secret}`;
        return { delayMs: SLOW_MS, removeWebhook: false, problem };
      }
      if (code === 409) {
        conflictAt = clock.now();
        const removeWebhook = /webhook/i.test(description);
        const delayMs = ++conflicts > PATIENCE ? SLOW_MS : backoff.next();
        if (conflicts <= PATIENCE) return { delayMs, removeWebhook };
        const other = removeWebhook ? "sets a webhook for" : "polls";
        const problem = `another program ${other} this bot: stop it, or use a separate bot for this trigger; trying again every minute`;
        return { delayMs, removeWebhook, problem };
      }
      failures++;
      if (code !== undefined && code >= 400 && code < 500) {
        return {
          delayMs: SLOW_MS,
          removeWebhook: false,
          problem: `the messenger refuses polling: ${error.message}`,
        };
      }
      return paced(failures, `the messenger cannot be reached, trying again: ${error.message}`);
    },
    succeeded() {
      failures = 0;
      if (conflicts > 0 && clock.now() - conflictAt < CALM_MS) return conflicts <= PATIENCE;
      conflicts = 0;
      backoff.reset();
      return true;
    },
  };
}
