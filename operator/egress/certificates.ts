import { createHash, type webcrypto } from "node:crypto";
import type { DomainPattern } from "./domain-pattern.ts";

/** A certificate and its private key, both PEM, the key as PKCS #8. */
export interface CertifiedKey {
  readonly certificate: string;
  readonly key: string;
}

export const DAY_MS = 86_400_000;

/** The lifetime of certificates, and when they are renewed, in days after their issue. */
export const authorityDays = { valid: 5 * 365, renewed: 4 * 365 } as const;
export const leafDays = { valid: 30, renewed: 20 } as const;

// For nodes whose clock is behind.
const CLOCK_SKEW_MS = 3_600_000;

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

export interface AuthorityOptions {
  readonly workload: string;
  /** The only domains that its certificates can name (RFC 5280, section 4.2.1.10). */
  readonly domains: readonly DomainPattern[];
  readonly now: Date;
  /** An existing key to certify again. @default a new key */
  readonly key?: string | undefined;
}

/** Issues a workload's own certificate authority, ECDSA on P-256, for five years. */
export async function issueAuthority({ workload, domains, now, key }: AuthorityOptions): Promise<CertifiedKey> {
  const x509 = await library();
  const keys = key === undefined ? await newKeys() : await readKeys(key);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity(now, authorityDays.valid),
    name: [{ CN: [`tenancy egress of ${workload}`.slice(0, 64)] }],
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      new x509.Extension("2.5.29.30", true, nameConstraints(domains.map(({ name }) => name))),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem").trimEnd()}\n`, key: await keyPem(keys.privateKey) };
}

/** Issues the proxy's certificate for a domain, for thirty days. */
export async function issueLeaf(
  authority: CertifiedKey,
  { domain, now }: { domain: DomainPattern; now: Date },
): Promise<CertifiedKey> {
  const x509 = await library();
  const issuer = new x509.X509Certificate(authority.certificate);
  const [signing, keys] = await Promise.all([readKeys(authority.key), newKeys()]);
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity(now, leafDays.valid),
    // A name of up to 253 characters does not fit in a common name; the alternative name is what clients read.
    subject: [{ CN: [`tenancy egress leaf ${createHash("sha256").update(domain.text).digest("hex").slice(0, 16)}`] }],
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: signing.privateKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension([{ type: "dns", value: domain.text }]),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem").trimEnd()}\n`, key: await keyPem(keys.privateKey) };
}

// Loaded at the first certificate: it takes 0.1 s and 18 MB, and an operator without credentials does not need it.
async function library() {
  const x509 = await import("@peculiar/x509");
  x509.cryptoProvider.set(globalThis.crypto);
  return x509;
}

function validity(now: Date, days: number): { serialNumber: string; notBefore: Date; notAfter: Date } {
  const serial = Buffer.from(globalThis.crypto.getRandomValues(new Uint8Array(16)));
  // Positive and not zero (RFC 5280, section 4.1.2.2).
  serial[0] = (serial.readUInt8(0) & 0x3f) | 0x40;
  return {
    serialNumber: serial.toString("hex"),
    notBefore: new Date(now.getTime() - CLOCK_SKEW_MS),
    notAfter: new Date(now.getTime() + days * DAY_MS),
  };
}

function newKeys(): Promise<CryptoKeyPair> {
  return globalThis.crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

async function readKeys(pem: string): Promise<CryptoKeyPair> {
  const { subtle } = globalThis.crypto;
  const privateKey = await subtle.importKey("pkcs8", pemBytes(pem), ALGORITHM, true, ["sign"]);
  const { kty, crv, x, y } = await subtle.exportKey("jwk", privateKey);
  const publicKey = await subtle.importKey("jwk", { kty, crv, x, y } as webcrypto.JsonWebKey, ALGORITHM, true, [
    "verify",
  ]);
  return { privateKey, publicKey };
}

async function keyPem(key: CryptoKey): Promise<string> {
  const bytes = Buffer.from(await globalThis.crypto.subtle.exportKey("pkcs8", key));
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join("\n")}\n-----END PRIVATE KEY-----\n`;
}

function pemBytes(pem: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ""), "base64"));
}

/**
 * DER of a NameConstraints extension that permits the names and their subdomains, and no IP address (RFC 5280, section
 * 4.2.1.10).
 */
export function nameConstraints(names: readonly string[]): Uint8Array<ArrayBuffer> {
  const DNS_NAME = 0x82;
  const IP_ADDRESS = 0x87;
  const subtree = (tag: number, content: Buffer) => element(0x30, element(tag, content));
  const permitted = names.map((name) => subtree(DNS_NAME, Buffer.from(name, "ascii")));
  const excluded = [8, 32].map((length) => subtree(IP_ADDRESS, Buffer.alloc(length)));
  return new Uint8Array(
    element(0x30, Buffer.concat([element(0xa0, Buffer.concat(permitted)), element(0xa1, Buffer.concat(excluded))])),
  );
}

function element(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}
