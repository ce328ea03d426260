import { STATUS_CODES } from "node:http";

/** A field that the proxy adds. */
export type AnswerField = readonly [name: string, value: string];

/** A response of the proxy itself. */
export interface LocalAnswer {
  readonly status: number;
  readonly fields?: readonly AnswerField[] | undefined;
  readonly contentType: string;
  readonly body: string;
  /** The code for closing an open WebSocket instead. @default 1001, going away */
  readonly closeCode?: number | undefined;
}

/** For programs: `{error}`, as in the REST API. */
export function errorAnswer(status: number, message: string, fields?: readonly AnswerField[]): LocalAnswer {
  return { status, fields, contentType: "application/json", body: JSON.stringify({ error: message }) };
}

const POLICY = "content-security-policy";

/**
 * Writes a response of the proxy; without a policy of its own it is sandboxed in browsers, as everything in the path
 * form must be.
 */
export function answerText(
  { status, fields = [], contentType, body }: LocalAnswer,
  options: { method: string; keepAlive: boolean; requestId: string },
): string {
  const { method, keepAlive, requestId } = options;
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (const [name, value] of fields) text += `${name}: ${value}\r\n`;
  if (!fields.some(([name]) => name.toLowerCase() === POLICY)) text += "Content-Security-Policy: sandbox\r\n";
  text += `Content-Type: ${contentType}\r\nCache-Control: no-store\r\nX-Request-Id: ${requestId}\r\n`;
  if (!keepAlive) text += "Connection: close\r\n";
  text += `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return method === "HEAD" ? text : text + body;
}
