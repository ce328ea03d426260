const MAX_CHARACTERS = 500;

/** The text on one line, cut at 500 characters: what somebody outside said, fit for a message. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
  const characters = [...line.slice(0, 2 * MAX_CHARACTERS + 2)];
  return characters.length > MAX_CHARACTERS ? `${characters.slice(0, MAX_CHARACTERS).join("")}…` : line;
}
