import type { Outcome } from "../adapter.ts";

/** The reply to a person if the outcome has no message. */
export const UNANSWERED = "This message could not be answered. Please try again later.";
export const TOO_MANY =
  "Too many messages are waiting here. This message and later ones were not read: please send them again later.";
const REFUSED = "This chat cannot be served here.";
const MAX_FAILURE = 300;

/** The reply for an outcome; nothing is sent if it is blank. */
export function replyText(outcome: Outcome): string {
  switch (outcome.kind) {
    case "answered":
      return outcome.reply.text;
    case "denied":
      return outcome.message;
    case "refused":
      // The reason is for the trigger's owner, in the Events.
      return REFUSED;
    case "failed":
      return outcome.message.trim() === "" ? UNANSWERED : outcome.message.slice(0, MAX_FAILURE);
    default:
      return outcome satisfies never;
  }
}

/** Maximum size of a message in UTF-16 code units (https://core.telegram.org/bots/api#sendmessage). */
const MAX_UNITS = 4096;
const MAX_PARTS = 16;
const CUT = "\n[truncated: the answer is longer than one reply]";

/**
 * Splits a reply into at most 16 messages of at most 4096 UTF-16 code units; none for a blank text.
 *
 * Splits after a paragraph, a line or a word, in this order, if there is one in the second half of the message, and
 * never within a surrogate pair. The parts contain every character of the text except blanks around a split.
 */
export function splitText(text: string): string[] {
  const parts: string[] = [];
  let rest = wellFormed(text).trim();
  while (rest !== "") {
    if (parts.length === MAX_PARTS - 1 && rest.length > MAX_UNITS) {
      parts.push(rest.slice(0, wholeCharacters(rest, MAX_UNITS - CUT.length)) + CUT);
      return parts;
    }
    const end = rest.length <= MAX_UNITS ? rest.length : splitAt(rest);
    parts.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return parts;
}

function splitAt(text: string): number {
  for (const boundary of ["\n\n", "\n", " "]) {
    const at = text.lastIndexOf(boundary, MAX_UNITS);
    if (at >= MAX_UNITS / 2) return at;
  }
  return wholeCharacters(text, MAX_UNITS);
}

function wholeCharacters(text: string, end: number): number {
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last <= 0xdbff ? end - 1 : end;
}

/** Replaces lone surrogates, which JSON cannot encode. */
function wellFormed(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}
