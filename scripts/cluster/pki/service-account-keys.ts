import { generateKeyPairSync } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface ServiceAccountKeys {
  readonly privateKeyPath: string;
  readonly publicKeyPath: string;
}

/** Returns the key pair that signs and checks service account tokens, made now unless it is there. */
export function serviceAccountKeys(folder: string): ServiceAccountKeys {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const privateKeyPath = join(folder, "service-account.key");
  const publicKeyPath = join(folder, "service-account.pub");
  if (!existsSync(publicKeyPath)) {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeFileSync(privateKeyPath, pair.privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
    writeFileSync(publicKeyPath, pair.publicKey.export({ type: "spki", format: "pem" }));
  }
  return { privateKeyPath, publicKeyPath };
}
