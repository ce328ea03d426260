import { createHmac, timingSafeEqual } from "node:crypto";
import { JsonBoundError, parseForeignJson } from "../../../crds/foreign-json.ts";
import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonSyntaxError } from "../../http/json-syntax-error.ts";
import { hostOf, refuseForeignHost } from "../../http/page-check.ts";
import type { AdapterContext } from "../adapter.ts";
import { mayPass } from "../triggers/trigger-problem.ts";
import { deliveryId } from "./deliveries.ts";
import type { UnverifiedBodies } from "./unverified-bodies.ts";

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json *(?:;|$)/i;
const FORM_TYPE = /^application\/x-www-form-urlencoded *(?:;|$)/i;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** A delivery that may be run. */
export interface Delivery {
  readonly data: unknown;
  readonly body: Uint8Array;
  /** The sender's id of the delivery. */
  readonly sent: string | undefined;
}

/** Reads a delivery and checks its signature, or its origin if the trigger has no secret. @throws HttpError */
export async function receiveDelivery(
  request: Request,
  context: AdapterContext,
  { localOnly, bodies }: { localOnly: boolean; bodies: UnverifiedBodies },
): Promise<Delivery> {
  const { metadata, spec } = context.trigger;
  const { secretRef } = spec.config;
  const signature = request.headers.get("x-hub-signature-256");
  if (secretRef === undefined) refusePages(request, { localOnly });
  else parseSignature(signature);
  const secret = secretRef === undefined ? undefined : await secretOf(context, secretRef);
  const body = await bodies.read(request, { webhook: metadata.uid ?? metadata.name });
  if (secret !== undefined) verifySignature({ signature, body, secret });
  const data = parseDelivery(body, request.headers.get("content-type"));
  return { data, body, sent: deliveryId(request.headers) };
}

/** Reports a secret that cannot be read, or can be read again. */
export async function checkSecret({ trigger, readSecret, report, log }: AdapterContext): Promise<void> {
  const { secretRef } = trigger.spec.config;
  if (secretRef === undefined) return;
  try {
    await readSecret(secretRef);
    report(undefined);
  } catch (error) {
    log.warn({ error }, "webhook secret not read");
    const why = error instanceof Error ? error.message : String(error);
    report(`spec.config.secretRef: ${why}`, { mayPass: mayPass(error) });
  }
}

/**
 * Reads a delivery's JSON: the body itself, or the field `payload` of a form, as GitHub sends either.
 *
 * @throws HttpError 400 if it has another type, is not JSON or too deep, 413 if it has too many values
 */
export function parseDelivery(body: Uint8Array, contentType: string | null): unknown {
  const isForm = contentType !== null && FORM_TYPE.test(contentType);
  if (!isForm && (contentType === null || !JSON_TYPE.test(contentType))) {
    const got = contentType === null ? "none" : quote(contentType);
    throw new HttpError(400, `content-type: must be application/json, or a form with a field payload, got ${got}`);
  }
  const text = isForm ? payloadOf(decode(body)) : decode(body);
  const place = isForm ? "body.payload" : "body";
  try {
    return parseForeignJson(text);
  } catch (cause) {
    if (cause instanceof JsonBoundError) throw new HttpError(cause.status, `${place}: ${cause.message}`, { cause });
    if (text.trim() === "") throw new HttpError(400, `${place}: must be JSON, got nothing`);
    throw new HttpError(400, `${place}: is not JSON: ${jsonSyntaxError(text)}`, { cause });
  }
}

/**
 * Refuses requests that a page of another site sends to a webhook without a secret: a browser may post a form to any
 * site, including webhooks that only its own machine can reach. Programs send webhooks without these headers.
 *
 * https://www.w3.org/TR/fetch-metadata/
 *
 * @param options.localOnly whether only this machine's own names are allowed as host
 * @throws HttpError 403
 */
export function refusePages(request: Request, options: { localOnly: boolean }): void {
  if (options.localOnly) refuseForeignHost(request);
  const { headers } = request;
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const isForeign =
    site === null
      ? origin !== null && hostOf(origin) !== headers.get("host")
      : site !== "same-origin" && site !== "none";
  if (isForeign)
    throw new HttpError(
      403,
      "a page of another site sent this request; give the trigger a secret (config.secretRef) and sign it",
    );
}

const SIGNATURE = /^sha256=([0-9a-f]{64})$/i;

/**
 * Checks `X-Hub-Signature-256: sha256=<hex>`, the HMAC-SHA256 of the raw body, in constant time.
 *
 * https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 *
 * @throws HttpError 401 if it is missing, malformed or wrong
 */
export function verifySignature(request: { signature: string | null; body: Uint8Array; secret: string }): void {
  const { signature, body, secret } = request;
  const given = parseSignature(signature);
  const expected = createHmac("sha256", secret).update(body).digest();
  if (!timingSafeEqual(given, expected))
    throw new HttpError(401, "X-Hub-Signature-256: does not match the body and the secret");
}

/** @returns the 32 bytes of a signature header @throws HttpError 401 if it is missing or malformed */
function parseSignature(signature: string | null): Buffer {
  if (signature === null)
    throw new HttpError(401, "X-Hub-Signature-256: is missing; sign the delivery with the webhook's secret");
  const hex = SIGNATURE.exec(signature)?.[1];
  if (hex === undefined) throw new HttpError(401, "X-Hub-Signature-256: must be sha256= and 64 hexadecimal digits");
  return Buffer.from(hex, "hex");
}

/** @throws HttpError 503: without the secret no sender can be verified */
async function secretOf({ readSecret, log }: AdapterContext, ref: { name: string; key: string }): Promise<string> {
  try {
    return await readSecret(ref);
  } catch (error) {
    log.warn({ error }, "webhook secret not read");
    throw new HttpError(503, "cannot verify deliveries now; try again later", {
      headers: { "retry-after": "5" },
    });
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
