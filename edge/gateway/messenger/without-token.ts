/** The text without the bot's token and without the secret half of it. */
export function withoutToken(text: string, token: string): string {
  const secret = token.slice(token.indexOf(":") + 1);
  return [token, encodeURIComponent(token), secret]
    .filter((part) => part !== "")
    .reduce((rest, part) => rest.replaceAll(part, "<token>"), text);
}
