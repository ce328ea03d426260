import { createBackoff } from "../../../crds/client/backoff.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { type LinkedSignal, linkSignals, sleep } from "../../../crds/waits.ts";
import type { AdapterContext, StartAdapter } from "../adapter.ts";
import { mayPass } from "../triggers/trigger-problem.ts";
import { type BotQueue, botIdentity, createBotQueue, createLeases, type Leases } from "./bot-lease.ts";
import { createMessengerClient, createPostFetch, type Fetch } from "./messenger-client.ts";
import { createPolledBots, type PolledBots } from "./polled-bots.ts";
import { runSession } from "./run-session.ts";

const DEFAULT_SERVER = "https://api.telegram.org";
const SECRET_PAUSE_MS = 30_000;

/**
 * Makes the adapter of messenger triggers, whose queues are shared by all triggers of a process.
 *
 * @param options.fetch sends the calls of the bot API
 */
export function createMessenger(
  options: { fetch?: Fetch; random?: () => number; polledBots?: PolledBots } = {},
): StartAdapter {
  const { fetch = createPostFetch({ clock: systemClock }), random = Math.random } = options;
  const { polledBots = createPolledBots(systemClock) } = options;
  const queue = createBotQueue();
  return (context) => {
    if (context.trigger.spec.config.botTokenSecretRef === undefined) {
      throw new Error(
        "spec.config.botTokenSecretRef: required for a messenger trigger: the Secret with its bot's token",
      );
    }
    return { done: serve(context, { fetch, random, queue, polledBots }) };
  };
}

interface Process {
  readonly fetch: Fetch;
  readonly random: () => number;
  readonly queue: BotQueue;
  readonly polledBots: PolledBots;
}

/** Serves the trigger, with one token after the other, until it is stopped; never rejects. */
async function serve(context: AdapterContext, process: Process): Promise<void> {
  const { clock, log, signal } = context;
  const backoff = createBackoff({ initialMs: 800, maxMs: 30_000, random: process.random });
  const leases = createLeases(context);
  let pauseMs = 0;
  while (!signal.aborted) {
    const changed = linkSignals(signal);
    try {
      await sleep(pauseMs, { clock, signal });
      pauseMs = 0;
      const token = await readToken(context, changed);
      await serveToken(token, context, { ...process, leases, stop: changed.signal });
      backoff.reset();
    } catch (error) {
      if (changed.signal.aborted) continue;
      pauseMs = backoff.next();
      log.warn({ error, pauseMs }, "messenger session failed, retrying");
    } finally {
      changed.close();
    }
  }
  await leases.closed();
}

async function readToken(context: AdapterContext, changed: LinkedSignal): Promise<string> {
  const { clock, trigger } = context;
  const ref = trigger.spec.config.botTokenSecretRef ?? { name: "", key: "" };
  const onChange = () => changed.abort(new Error("the bot's token has changed"));
  for (;;) {
    let problem: string;
    let passes = false;
    try {
      const token = (await context.readSecret(ref, { onChange })).trim();
      if (/^[-\w:]+$/.test(token)) return token;
      problem = `${secretName(context)} does not contain a bot token`;
    } catch (error) {
      changed.signal.throwIfAborted();
      problem = error instanceof Error ? error.message : String(error);
      passes = mayPass(error);
    }
    context.report(problem, { mayPass: passes });
    await sleep(SECRET_PAUSE_MS, { clock, signal: changed.signal });
  }
}

/**
 * Polls with the token while this trigger is the first in the queue and this process holds the Lease, until it is
 * stopped.
 */
async function serveToken(
  token: string,
  context: AdapterContext,
  options: Process & { leases: Leases; stop: AbortSignal },
): Promise<void> {
  const { fetch, random, queue, polledBots, leases, stop } = options;
  const { clock, trigger } = context;
  const { name = "", creationTimestamp } = trigger.metadata;
  const apiBaseUrl = (trigger.spec.config.apiBaseUrl ?? DEFAULT_SERVER).replace(/\/+$/, "");
  const bot = botIdentity(token, apiBaseUrl);
  const client = createMessengerClient({ token, apiBaseUrl, clock, fetch });
  const createdAt = creationTimestamp === undefined ? "" : new Date(creationTimestamp).toISOString();
  const queued = queue.enter(bot.lease, { name, createdAt });
  const onWait = (servedBy: string) =>
    context.report(
      `trigger "${servedBy}" already serves this bot: use a separate bot for this trigger, or delete one of them`,
    );
  try {
    while (!stop.aborted) {
      await queued.untilFirst({ signal: stop, onWait });
      const preempted = linkSignals(stop);
      const ignorePreemption = queued.onPreempted((servedBy) => {
        onWait(servedBy);
        preempted.abort(new Error("an earlier trigger of this bot was created"));
      });
      try {
        await leases.whileHolding(bot.lease, stop, async (held) => {
          const secret = secretName(context);
          const session = { context, bot, client, random, polledBots, secret, held, stop: preempted.signal };
          if (!preempted.signal.aborted) await runSession(session).finally(() => polledBots.ended(name));
        });
      } finally {
        ignorePreemption();
        preempted.close();
      }
    }
  } finally {
    queued.leave();
  }
}

function secretName({ trigger }: AdapterContext): string {
  const { name, key } = trigger.spec.config.botTokenSecretRef ?? { name: "", key: "" };
  return `Secret "${name}", key "${key}"`;
}
