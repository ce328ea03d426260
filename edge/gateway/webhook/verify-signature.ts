import { createHmac, timingSafeEqual } from "node:crypto";
import { HttpError } from "../../http/http-error.ts";

const SIGNATURE = /^sha256=([0-9a-f]{64})$/i;

/**
 * Checks `X-Hub-Signature-256: sha256=<hex>`, the HMAC-SHA256 of the body as it was sent, in a time that does not
 * depend on where the first difference is.
 *
 * https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 *
 * @throws HttpError 401 where it is missing, malformed or wrong
 */
export function verifySignature(request: { signature: string | null; body: Uint8Array; secret: string }): void {
  const { signature, body, secret } = request;
  const given = parseSignature(signature);
  const expected = createHmac("sha256", secret).update(body).digest();
  if (!timingSafeEqual(given, expected))
    throw new HttpError(401, "X-Hub-Signature-256: does not fit the body and the secret");
}

/** @returns the 32 bytes of a signature header @throws HttpError 401 where it is missing or malformed */
export function parseSignature(signature: string | null): Buffer {
  if (signature === null)
    throw new HttpError(401, "X-Hub-Signature-256: is missing; sign the delivery with the webhook's secret");
  const hex = SIGNATURE.exec(signature)?.[1];
  if (hex === undefined) throw new HttpError(401, "X-Hub-Signature-256: must be sha256= and 64 hexadecimal digits");
  return Buffer.from(hex, "hex");
}
