import { createHash } from "node:crypto";

/** Which bot a token is for, in words that do not tell the token. */
export interface BotIdentity {
  /** The bot's own id, as events carry it. */
  readonly id: string;
  /** Whose updates the offset in the trigger's status counts: this bot's at this server. */
  readonly key: string;
  /** Name of the Lease that one poller of the token holds. */
  readonly lease: string;
}

/**
 * A token reads `<bot id>:<secret>`; a renewed token keeps the bot's id and its updates
 * (https://core.telegram.org/bots/api#authorizing-your-bot).
 */
export function botIdentity(token: string, apiBaseUrl: string): BotIdentity {
  const id = /^(\d{1,20}):/.exec(token)?.[1] ?? digest(token, 12);
  return { id, key: digest(`${apiBaseUrl}\n${id}`, 16), lease: `tenancy-messenger-${digest(token, 16)}` };
}

function digest(text: string, digits: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, digits);
}
