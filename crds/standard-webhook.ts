import { createHmac } from "node:crypto";

const SECRET = /^whsec_([A-Za-z0-9+/]{32,88}={0,2})$/;
const [MIN_SECRET_BYTES, MAX_SECRET_BYTES] = [24, 64];

/** What {@link webhookSecrets} takes, in words that can follow "must be". */
export const WEBHOOK_SECRETS =
  "whsec_ and base64 of 24 to 64 bytes, or several separated by commas; create one with " +
  'echo "whsec_$(openssl rand -base64 32)"';

/** The bytes of the secrets in a text, `whsec_` and base64 each, separated by commas; undefined if one is not. */
export function webhookSecrets(text: string): readonly Buffer[] | undefined {
  const secrets = text.split(",").map((one) => Buffer.from(SECRET.exec(one.trim())?.[1] ?? "", "base64"));
  const isValid = ({ length }: Buffer) => length >= MIN_SECRET_BYTES && length <= MAX_SECRET_BYTES;
  return secrets.every(isValid) ? secrets : undefined;
}

/**
 * The headers of a request that is signed with each of the secrets, of which its receiver needs one:
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @param options.id the same each time that the body is sent
 * @param options.now milliseconds since 1970; receivers refuse what is more than some minutes old
 */
export function webhookHeaders(
  body: string,
  { id, secrets, now }: { id: string; secrets: readonly Buffer[]; now: number },
): Record<string, string> {
  const seconds = Math.floor(now / 1000);
  const signatures = secrets.map(
    (secret) => `v1,${createHmac("sha256", secret).update(`${id}.${seconds}.${body}`).digest("base64")}`,
  );
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": signatures.join(" "),
  };
}
