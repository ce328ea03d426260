import { hash, randomBytes, randomInt } from "node:crypto";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH = 16;
const SECRET_BYTES = 32;
export const keyIdPattern = `^[a-z0-9]{${ID_LENGTH}}$`;
/** The last character of 32 bytes in base64url has two bits that must be 0: each key has one text. */
const TEXT = /^tk_([a-z0-9]{16})_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$/;

/** The text of a key, `tk_<id>_<secret>`, in its parts. */
export interface ParsedKey {
  /** 16 of a-z and 0-9; public. */
  readonly id: string;
  /** SHA-256 of the 32 bytes whose base64url is the secret. */
  readonly digest: Buffer;
}

/** Makes a key of random bytes; only its holder gets the text. */
export function makeKeyText(): { readonly text: string } & ParsedKey {
  const id = Array.from({ length: ID_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
  const secret = randomBytes(SECRET_BYTES);
  return { text: `tk_${id}_${secret.toString("base64url")}`, id, digest: hash("sha256", secret, "buffer") };
}

/** Undefined for a text that is no key, such as TENANCY_API_KEY. */
export function parseKeyText(text: string): ParsedKey | undefined {
  const [, id, secret] = TEXT.exec(text) ?? [];
  if (id === undefined || secret === undefined) return undefined;
  return { id, digest: hash("sha256", Buffer.from(secret, "base64url"), "buffer") };
}
