import type { IncomingEvent } from "../adapter.ts";
import type { BotUpdate } from "./read-update.ts";

/**
 * What the pipeline gets of an update.
 *
 * Names are compared without case by the messenger, so they come in lower case: one person is one tenant however the name is
 * written. A name can be given up and taken by another person, an id cannot (docs/decisions/745-tenant-of-a-message.md).
 */
export function incomingEvent(update: BotUpdate, options: { botId: string; receivedAt: string }): IncomingEvent {
  const { chatId, userId, username, text, data, updateId } = update;
  const usernameOrId = username === undefined || username === "" ? userId : username.toLowerCase();
  return {
    id: `${options.botId}-${updateId}`,
    fields: { chatId, userId, usernameOrId },
    text,
    data,
    receivedAt: options.receivedAt,
  };
}
