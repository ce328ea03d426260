/** Characters of a user's text in a message. */
const MOST_SHOWN = 80;

/** The text in JSON quotes, cut at 80 characters: a caller's input, safe to show on one line. */
export function quote(text: string): string {
  return JSON.stringify(cut(text));
}

/** The text, cut at 80 characters. */
export function cut(text: string): string {
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
}
