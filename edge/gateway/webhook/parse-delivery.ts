import { HttpError } from "../../http/http-error.ts";
import { jsonSyntaxError } from "../../http/json-syntax-error.ts";
import { quote } from "../../http/quote.ts";

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json *(?:;|$)/i;
const FORM_TYPE = /^application\/x-www-form-urlencoded *(?:;|$)/i;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a delivery's JSON: the body itself, or the field `payload` of a form, as GitHub sends either.
 *
 * @throws HttpError 400 where it is of another type or no JSON
 */
export function parseDelivery(body: Uint8Array, contentType: string | null): unknown {
  const isForm = contentType !== null && FORM_TYPE.test(contentType);
  if (!isForm && (contentType === null || !JSON_TYPE.test(contentType))) {
    const got = contentType === null ? "none" : quote(contentType);
    throw new HttpError(400, `content-type: must be application/json, or a form with a field payload, got ${got}`);
  }
  const text = isForm ? payloadOf(decode(body)) : decode(body);
  try {
    return JSON.parse(text);
  } catch (cause) {
    const place = isForm ? "body.payload" : "body";
    if (text.trim() === "") throw new HttpError(400, `${place}: must be JSON, got nothing`);
    throw new HttpError(400, `${place}: is not JSON: ${jsonSyntaxError(text) ?? "nested too deeply"}`, { cause });
  }
}

function decode(body: Uint8Array): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw new HttpError(400, "body: is not UTF-8 text", { cause });
  }
}

function payloadOf(form: string): string {
  const payload = new URLSearchParams(form).get("payload");
  if (payload === null) throw new HttpError(400, "body: is a form without a field payload");
  return payload;
}
