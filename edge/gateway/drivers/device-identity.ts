import { createHash, createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from "node:crypto";

/** An Ed25519 key that OpenClaw knows a client by. */
export interface DeviceIdentity {
  /** SHA-256 of the public key, in hexadecimal digits. */
  readonly id: string;
  /** The key's 32 bytes in base64url. */
  readonly publicKey: string;
  /** The signature of a text, in base64url. */
  sign(text: string): string;
}

/** What stands before the seed of an Ed25519 key in PKCS #8. https://www.rfc-editor.org/rfc/rfc8410#section-7 */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const PUBLIC_KEY_BYTES = 32;

/**
 * Derives a device from the Gateway's token, so that every edge and every start of it is the same device, which has to be approved once.
 *
 * Follows the page "Auth and device identity" of the OpenClaw Gateway protocol.
 */
export function deviceIdentityOf(token: string): DeviceIdentity {
  const seed = Buffer.from(hkdfSync("sha256", token, "", "tenancy.dev/driver-b/device/1", 32));
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: "der", type: "pkcs8" });
  const publicKey = rawPublicKey(privateKey);
  return {
    id: createHash("sha256").update(publicKey).digest("hex"),
    publicKey: publicKey.toString("base64url"),
    sign: (text) => sign(null, Buffer.from(text), privateKey).toString("base64url"),
  };
}

function rawPublicKey(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: "spki", format: "der" }).subarray(-PUBLIC_KEY_BYTES);
}
