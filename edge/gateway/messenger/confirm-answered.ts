import { MessengerError } from "./messenger-error.ts";
import type { SessionParts } from "./session-parts.ts";
import { withinLimit } from "./within-limit.ts";

const LIMIT_MS = 2_000;

/**
 * Tells the server at a session's end what is answered: another trigger of the same bot, which has a state of its own, would answer
 * it once more. Where the server does not take it, the next session of this trigger still knows.
 */
export async function confirmAnswered(session: SessionParts, allowedUpdates: readonly string[]): Promise<void> {
  const { context, client, progress, writer, ended } = session;
  const { clock, log } = context;
  // What was answered after the trigger had gone can be kept nowhere else.
  const offset = writer.gone ? progress.offset : writer.written;
  if (offset === undefined) return;
  try {
    await withinLimit((signal) => client.getUpdates({ offset, limit: 1, timeoutSeconds: 0, allowedUpdates }, signal), {
      limitMs: LIMIT_MS,
      clock,
      signal: ended,
    });
  } catch (error) {
    if (!(error instanceof MessengerError) && !ended.aborted)
      log.debug({ error }, "no time to confirm what is answered");
    else log.debug({ error }, "cannot confirm what is answered");
  }
}
