import { createHash, createPublicKey, type KeyObject, randomBytes } from "node:crypto";
import { isIPv4 } from "node:net";

export interface CertificateOptions {
  commonName: string;
  /** Become the groups of a Kubernetes user. */
  organizations?: readonly string[];
  /** DNS names and IPv4 addresses. */
  alternativeNames?: readonly string[];
  purpose: "authority" | "server" | "client" | "both";
  publicKey: KeyObject;
  issuer: { commonName: string; privateKey: KeyObject };
  /** How long it is valid from now, in days; negative makes one that has expired. @default 3650 */
  days?: number;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const DAY_MS = 86_400_000;

/** Makes an X.509 v3 certificate, PEM, signed with the issuer's ECDSA key on P-256 (RFC 5280). */
export async function certificate(options: CertificateOptions): Promise<string> {
  const { commonName, organizations = [], alternativeNames = [], purpose, publicKey, issuer, days = 3650 } = options;
  // Loaded at the first certificate, since that takes a tenth of a second, and most runs find their certificates made.
  const x509 = await import("@peculiar/x509");
  x509.cryptoProvider.set(globalThis.crypto);
  const { ExtendedKeyUsage, KeyUsageFlags } = x509;
  const isAuthority = purpose === "authority";
  const usages = [
    ...(purpose === "server" || purpose === "both" ? [ExtendedKeyUsage.serverAuth] : []),
    ...(purpose === "client" || purpose === "both" ? [ExtendedKeyUsage.clientAuth] : []),
  ];
  const names = alternativeNames.map((value) => ({ type: isIPv4(value) ? "ip" : "dns", value }) as const);
  const now = Date.now();
  const end = now + days * DAY_MS;
  const { subtle } = globalThis.crypto;
  const made = await x509.X509CertificateGenerator.create({
    // Positive, and never zero.
    serialNumber: `01${randomBytes(15).toString("hex")}`,
    // An hour back, so that a clock that is a little behind accepts it; further when it is to have expired.
    notBefore: new Date(Math.min(now, end) - DAY_MS / 24),
    notAfter: new Date(end),
    subject: new x509.Name([
      ...organizations.map((name) => ({ O: [{ utf8String: name }] })),
      { CN: [{ utf8String: commonName }] },
    ]),
    issuer: new x509.Name([{ CN: [{ utf8String: issuer.commonName }] }]),
    publicKey: await subtle.importKey("spki", bytesOf(publicKey, "spki"), ALGORITHM, true, ["verify"]),
    signingKey: await subtle.importKey("pkcs8", bytesOf(issuer.privateKey, "pkcs8"), ALGORITHM, true, ["sign"]),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(isAuthority, undefined, true),
      new x509.KeyUsagesExtension(
        isAuthority ? KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign : KeyUsageFlags.digitalSignature,
        true,
      ),
      new x509.SubjectKeyIdentifierExtension(keyIdentifier(publicKey)),
      new x509.AuthorityKeyIdentifierExtension(keyIdentifier(createPublicKey(issuer.privateKey))),
      ...(usages.length > 0 ? [new x509.ExtendedKeyUsageExtension(usages)] : []),
      ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
    ],
  });
  return `${made.toString("pem").trimEnd()}\n`;
}

/** The same for as long as a cluster's authority is kept, whatever a library takes it from. */
function keyIdentifier(publicKey: KeyObject): string {
  return createHash("sha1").update(bytesOf(publicKey, "spki")).digest("hex");
}

function bytesOf(key: KeyObject, type: "spki" | "pkcs8"): Uint8Array<ArrayBuffer> {
  return new Uint8Array(key.export({ type, format: "der" } as { type: "spki"; format: "der" }));
}
