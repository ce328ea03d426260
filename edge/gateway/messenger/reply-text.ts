import type { Outcome } from "../adapter.ts";

/** What a person reads where the pipeline has no words of its own. */
export const UNANSWERED = "This message could not be answered. Please try again later.";
export const TOO_MANY =
  "Too many messages wait for an answer here. This one and those after it were not read: please send them again later.";
const REFUSED = "This chat cannot be served here.";
const MAX_FAILURE = 300;

/** What the chat reads of an outcome; blank: nothing is sent. */
export function replyText(outcome: Outcome): string {
  switch (outcome.kind) {
    case "answered":
      return outcome.reply.text;
    case "denied":
      return outcome.message;
    case "refused":
      // Why is for the trigger's owner, who finds it in the Events.
      return REFUSED;
    case "failed":
      return outcome.message.trim() === "" ? UNANSWERED : outcome.message.slice(0, MAX_FAILURE);
    default:
      return outcome satisfies never;
  }
}
