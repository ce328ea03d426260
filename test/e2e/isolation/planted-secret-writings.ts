/** Every way in which a text is likely to be written somewhere: as it is, in base64 at any place of a longer text, in hex, URL-encoded. */
export function writingsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const hex = bytes.toString("hex");
  const percent = hex.replaceAll(/../g, "%$&");
  const encoded = [0, 1, 2].map((offset) => alignedBase64(bytes, offset));
  return [
    ...new Set([
      ...[text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1)],
      ...encoded,
      ...encoded.map((one) => one.replaceAll("+", "-").replaceAll("/", "_")),
      ...[hex, hex.toUpperCase(), percent, percent.toUpperCase()],
    ]),
  ];
}

/** What base64 makes of the bytes where `offset` bytes come before them, without the characters that its neighbours have a part in. */
function alignedBase64(bytes: Buffer, offset: number): string {
  const whole = Buffer.concat([Buffer.alloc(offset), bytes]);
  const text = whole.toString("base64").replaceAll("=", "");
  return text.slice([0, 2, 3][offset], whole.length % 3 === 0 ? undefined : -1);
}
