import { KEY_PROTOCOL } from "../../http/api-key.ts";

/** The text of a key anywhere in a value, valid or not. */
const KEY_TEXT = /tk_[a-z0-9]{16}_[\w-]{43}/;
/** Each costs a digest. */
const MOST_WORDS = 32;
/** The text of an access token of a sandbox (edge/e2b/access-token.ts): its payload begins with `{"v":1,"t":"`. */
const ACCESS_TOKEN = /^eyJ2IjoxLCJ0Ijoi[\w-]*\.[\w-]{43}$/;
const BASIC = /^basic\s+(\S+)/i;

/**
 * Whether an `Authorization` has a key that no pod may see: the text of a key with a role, valid or not, or
 * TENANCY_API_KEY with any scheme, or as user or password of Basic.
 *
 * @param isApiKey whether a text is TENANCY_API_KEY. Undefined where it is not set
 */
export function authorizesByKey(value: string, isApiKey: ((text: string) => boolean) | undefined): boolean {
  const words = [value.split(/\s+/), value.split(/[\s,="]+/)].flatMap((some) => some.slice(0, MOST_WORDS));
  if (KEY_TEXT.test(value) || (isApiKey !== undefined && words.some(isApiKey))) return true;
  const credentials = BASIC.exec(value)?.[1];
  if (credentials === undefined) return false;
  const text = Buffer.from(credentials, "base64").toString("utf8");
  if (KEY_TEXT.test(text)) return true;
  const colon = text.indexOf(":");
  const parts = colon < 0 ? [text] : [text.slice(0, colon), text.slice(colon + 1)];
  return isApiKey !== undefined && parts.some(isApiKey);
}

/**
 * Whether an entry of `Sec-WebSocket-Protocol` has a key: as such, or in base64url after its last dot, as in our own
 * `tenancy.bearer.<key>`.
 */
export function isKeyProtocol(entry: string): boolean {
  if (entry.startsWith(KEY_PROTOCOL) || KEY_TEXT.test(entry)) return true;
  return KEY_TEXT.test(Buffer.from(entry.slice(entry.lastIndexOf(".") + 1), "base64url").toString("utf8"));
}

/** Whether a value of `X-API-Key` is a key, valid or not. */
export function isApiKeyField(value: string, isApiKey: ((text: string) => boolean) | undefined): boolean {
  return KEY_TEXT.test(value) || isApiKey?.(value) === true;
}

/** Whether a value is an access token of a sandbox, valid or not. */
export function isAccessTokenText(value: string): boolean {
  return ACCESS_TOKEN.test(value);
}
