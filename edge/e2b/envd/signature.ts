import { createHash, timingSafeEqual } from "node:crypto";

/** What an address of a file is signed for. */
interface SignedFile {
  readonly path: string;
  readonly operation: "read" | "write";
  /** Empty for the default. */
  readonly user: string;
  /** Seconds since the epoch. */
  readonly expiration: string | undefined;
}

/** The signature that the holder of a sandbox's access token makes for a file, as E2B's SDKs have it. */
function signatureOf({ path, operation, user, expiration }: SignedFile, token: string): string {
  const parts = [path, operation, user, token, ...(expiration === undefined ? [] : [expiration])];
  return `v1_${createHash("sha256").update(parts.join(":")).digest("base64").replace(/=+$/, "")}`;
}

/** Compares in constant time. */
export function isSignature(text: string, file: SignedFile, token: string): boolean {
  const [given, expected] = [text, signatureOf(file, token)].map((one) => createHash("sha256").update(one).digest());
  return given !== undefined && expected !== undefined && timingSafeEqual(given, expected);
}
