/** A text's UTF-8 bytes, one per character, as the program in a pod takes arguments and paths. */
export function bytesOf(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** The text of bytes, one per character; U+FFFD for what is no UTF-8. */
export function textOf(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString("utf8");
}
