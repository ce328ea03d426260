/**
 * Control characters, what changes the direction of text, line separators, and halves of surrogate pairs: what a
 * terminal acts on, or what makes a text look like another one.
 */
const UNSEEN = /[\p{Cc}\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A text of a tenant as one line that a terminal shows as it is, such as `\x1b[2J` or `\u{202e}`. */
export function escapeText(text: string): string {
  return text.replaceAll(UNSEEN, (character) => SHORT[character] ?? codeOf(character));
}

/** As {@link escapeText}, but leaves the ends of lines and tabs. */
export function escapeLines(text: string): string {
  return text.replaceAll(UNSEEN, (character) => (/[\n\t]/.test(character) ? character : codeOf(character)));
}

/** The same for JSON, which stays JSON with the same value. */
export function escapeJson(json: string): string {
  return json.replaceAll(UNSEEN, (character) =>
    character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function codeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}
