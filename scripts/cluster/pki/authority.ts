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
  issue(options: IssueOptions): IssuedCertificate;
}

const COMMON_NAME = "local-cluster";

/** Opens the certificate authority of a cluster in a folder, made now unless it is there; keys are readable by the user only. */
export function openAuthority(folder: string): Authority {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const privateKeyPath = join(folder, "ca.key");
  const certificatePath = join(folder, "ca.crt");
  let privateKey: KeyObject;
  if (existsSync(certificatePath)) {
    privateKey = createPrivateKey(readFileSync(privateKeyPath));
  } else {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    privateKey = pair.privateKey;
    const issuer = { commonName: COMMON_NAME, privateKey };
    writeKey(privateKeyPath, privateKey);
    writeFileSync(
      certificatePath,
      certificate({ commonName: COMMON_NAME, purpose: "authority", publicKey: pair.publicKey, issuer }),
    );
  }
  return {
    certificate: readFileSync(certificatePath, "utf8"),
    certificatePath,
    issue: (options) => issue(folder, { ...options, issuer: { commonName: COMMON_NAME, privateKey } }),
  };
}

function issue(folder: string, options: IssueOptions & Pick<CertificateOptions, "issuer">): IssuedCertificate {
  const certificatePath = join(folder, `${options.fileName}.crt`);
  const keyPath = join(folder, `${options.fileName}.key`);
  if (!existsSync(certificatePath)) {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeKey(keyPath, pair.privateKey);
    writeFileSync(certificatePath, certificate({ ...options, publicKey: pair.publicKey }));
  }
  return {
    certificate: readFileSync(certificatePath, "utf8"),
    key: readFileSync(keyPath, "utf8"),
    certificatePath,
    keyPath,
  };
}

function writeKey(path: string, key: KeyObject): void {
  writeFileSync(path, key.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
}
