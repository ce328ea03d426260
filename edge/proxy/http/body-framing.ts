import { type Field, MessageError, type RequestHead, type ResponseHead, valuesOf } from "./message-head.ts";

/** Where a body ends (https://www.rfc-editor.org/rfc/rfc9112#section-6.3). */
export type BodyFraming =
  | { readonly kind: "none" }
  | { readonly kind: "length"; readonly bytes: number }
  | { readonly kind: "chunked" }
  /** With the connection; only for responses. */
  | { readonly kind: "close" };

const NONE = { kind: "none" } as const;
const CHUNKED = { kind: "chunked" } as const;
const CLOSE = { kind: "close" } as const;
/** Few enough digits for an exact number. */
const LENGTH = /^\d{1,15}$/;

/**
 * Determines where a request's body ends, and refuses what servers interpret differently: both fields, a length twice,
 * a coding beside `chunked`, chunks of HTTP/1.0.
 *
 * @throws MessageError
 */
export function requestFraming({ fields, minor }: RequestHead): BodyFraming {
  const { codings, length } = framingFields(fields);
  if (codings === undefined)
    return length === undefined || length === 0 ? emptyOf(length) : { kind: "length", bytes: length };
  if (minor === 0) throw new MessageError(400, "headers: HTTP/1.0 has no Transfer-Encoding");
  if (codings !== "chunked") throw new MessageError(501, "headers: the only Transfer-Encoding is chunked");
  return CHUNKED;
}

/** Determines where the body of a response to a request of that method ends. @throws MessageError */
export function responseFraming({ status, fields }: ResponseHead, method: string): BodyFraming {
  const { codings, length } = framingFields(fields);
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return NONE;
  if (codings === undefined) return length === undefined ? CLOSE : { kind: "length", bytes: length };
  if (codings !== "chunked") throw new MessageError(502, "headers: the only Transfer-Encoding is chunked");
  return CHUNKED;
}

/** A request with `Content-Length: 0` keeps that field for the pod. */
function emptyOf(length: number | undefined): BodyFraming {
  return length === undefined ? NONE : { kind: "length", bytes: 0 };
}

function framingFields(fields: readonly Field[]): { codings: string | undefined; length: number | undefined } {
  let lengths = 0;
  let isCoded = false;
  for (const [, , name] of fields) {
    if (name === "content-length") lengths += 1;
    else if (name === "transfer-encoding") isCoded = true;
  }
  if (lengths === 0 && !isCoded) return { codings: undefined, length: undefined };
  if (lengths > 0 && isCoded)
    throw new MessageError(400, "headers: Content-Length and Transfer-Encoding exclude each other");
  // All lines unchanged: not as a list, since readers drop empty list members.
  if (isCoded) return { codings: valuesOf(fields, "transfer-encoding").join().toLowerCase(), length: undefined };
  const [value = ""] = valuesOf(fields, "content-length");
  if (lengths > 1 || !LENGTH.test(value)) throw new MessageError(400, "headers: Content-Length is not one number");
  return { codings: undefined, length: Number(value) };
}
