/** What the head of a response says about the whole of it. */
export interface ResponseHead {
  readonly status: number;
  /** Head and body, in bytes. */
  readonly length: number;
}

const HEAD_END = Buffer.from("\r\n\r\n");

/**
 * Reads the head of an HTTP/1.1 response at the start of the bytes; undefined while it is not complete.
 *
 * @throws Error where the body's length is not told beforehand
 */
export function readResponseHead(bytes: Buffer): ResponseHead | undefined {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const head = bytes.toString("latin1", 0, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) throw new Error(`Cannot measure: a response has no content-length: ${head.slice(0, 200)}`);
  return { status: Number(head.slice(9, 12)), length: end + HEAD_END.length + Number(length) };
}
