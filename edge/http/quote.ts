const MAX_SHOWN = 80;

/** The text in JSON quotes, cut at 80 characters: what a caller sent, safe to show back on one line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);
}
