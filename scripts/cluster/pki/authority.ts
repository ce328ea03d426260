import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CertificateOptions, certificate } from "./certificate.ts";

export interface IssuedCertificate {
  /** PEM. */
  readonly certificate: string;
  /** PEM, PKCS #8. */
  readonly key: string;
  readonly certificatePath: string;
  readonly keyPath: string;
}

export type IssueOptions = Omit<CertificateOptions, "publicKey" | "issuer"> & {
  /** Name of the two files, without their endings. */
  fileName: string;
};

export interface Authority {
  /** The authority's own certificate, PEM. */
  readonly certificate: string;
  readonly certificatePath: string;
  /** Returns the certificate and key of that file name, issued now unless they are there. */
  issue(options: IssueOptions): Promise<IssuedCertificate>;
}

const COMMON_NAME = "local-cluster";

/**
 * Opens the certificate authority of a cluster in a folder, made now unless it is there; keys are readable by the user
 * only.
 */
export async function openAuthority(folder: string): Promise<Authority> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const privateKeyPath = join(folder, "ca.key");
  const certificatePath = join(folder, "ca.crt");
  if (!existsSync(certificatePath)) {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const issuer = { commonName: COMMON_NAME, privateKey };
    const made = await certificate({ commonName: COMMON_NAME, purpose: "authority", publicKey, issuer });
    writeUnlessThere({ certificatePath, keyPath: privateKeyPath, certificate: made, privateKey });
  }
  const privateKey = createPrivateKey(readFileSync(privateKeyPath));
  return {
    certificate: readFileSync(certificatePath, "utf8"),
    certificatePath,
    issue: (options) => issue(folder, { ...options, issuer: { commonName: COMMON_NAME, privateKey } }),
  };
}

async function issue(
  folder: string,
  options: IssueOptions & Pick<CertificateOptions, "issuer">,
): Promise<IssuedCertificate> {
  const certificatePath = join(folder, `${options.fileName}.crt`);
  const keyPath = join(folder, `${options.fileName}.key`);
  if (!existsSync(certificatePath)) {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const made = await certificate({ ...options, publicKey });
    writeUnlessThere({ certificatePath, keyPath, certificate: made, privateKey });
  }
  return {
    certificate: readFileSync(certificatePath, "utf8"),
    key: readFileSync(keyPath, "utf8"),
    certificatePath,
    keyPath,
  };
}

/** Writes both files, which belong together, unless another call has already done so. */
function writeUnlessThere(files: {
  certificatePath: string;
  keyPath: string;
  certificate: string;
  privateKey: KeyObject;
}): void {
  if (existsSync(files.certificatePath)) return;
  writeFileSync(files.keyPath, files.privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  writeFileSync(files.certificatePath, files.certificate);
}
