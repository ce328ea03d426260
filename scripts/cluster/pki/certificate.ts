import { createHash, createPublicKey, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4 } from "node:net";
import { der } from "./der.ts";

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

const ECDSA_WITH_SHA256 = der.sequence(der.objectIdentifier("1.2.840.10045.4.3.2"));
const SERVER_AUTHENTICATION = der.objectIdentifier("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTHENTICATION = der.objectIdentifier("1.3.6.1.5.5.7.3.2");
const DAY_MS = 86_400_000;

/** Returns an X.509 v3 certificate in PEM, signed with the issuer's ECDSA key (RFC 5280). */
export function certificate(options: CertificateOptions): string {
  const now = Date.now();
  const end = now + (options.days ?? 3650) * DAY_MS;
  const body = der.sequence(
    der.context(0, der.integer(Buffer.of(2)), true),
    der.integer(Buffer.concat([Buffer.of(1), randomBytes(15)])),
    ECDSA_WITH_SHA256,
    distinguishedName(options.issuer.commonName, []),
    // An hour back, so that a clock that is a little behind accepts it; further when it is to have expired.
    der.sequence(der.time(new Date(Math.min(now, end) - DAY_MS / 24)), der.time(new Date(end))),
    distinguishedName(options.commonName, options.organizations ?? []),
    options.publicKey.export({ type: "spki", format: "der" }),
    der.context(3, der.sequence(...extensions(options)), true),
  );
  const signature = sign("sha256", body, options.issuer.privateKey);
  const encoded = der.sequence(body, ECDSA_WITH_SHA256, der.bitString(signature)).toString("base64");
  return `-----BEGIN CERTIFICATE-----\n${(encoded.match(/.{1,64}/g) ?? []).join("\n")}\n-----END CERTIFICATE-----\n`;
}

function distinguishedName(commonName: string, organizations: readonly string[]): Buffer {
  const attribute = (identifier: string, value: string): Buffer =>
    der.set(der.sequence(der.objectIdentifier(identifier), der.utf8String(value)));
  return der.sequence(
    ...organizations.map((organization) => attribute("2.5.4.10", organization)),
    attribute("2.5.4.3", commonName),
  );
}

function extensions(options: CertificateOptions): Buffer[] {
  const { purpose } = options;
  const authority = purpose === "authority";
  const usages = authority
    ? []
    : [
        ...(purpose === "client" ? [] : [SERVER_AUTHENTICATION]),
        ...(purpose === "server" ? [] : [CLIENT_AUTHENTICATION]),
      ];
  const names = (options.alternativeNames ?? []).map((name) =>
    isIPv4(name)
      ? der.context(7, Buffer.from(name.split(".").map(Number)), false)
      : der.context(2, Buffer.from(name), false),
  );
  return [
    extension("2.5.29.19", true, der.sequence(...(authority ? [der.boolean(true)] : []))),
    // keyCertSign and cRLSign for an authority, digitalSignature for everybody else.
    extension("2.5.29.15", true, authority ? der.bitString(Buffer.of(0x06), 1) : der.bitString(Buffer.of(0x80), 7)),
    extension("2.5.29.14", false, der.octetString(keyIdentifier(options.publicKey))),
    extension(
      "2.5.29.35",
      false,
      der.sequence(der.context(0, keyIdentifier(createPublicKey(options.issuer.privateKey)), false)),
    ),
    ...(usages.length > 0 ? [extension("2.5.29.37", false, der.sequence(...usages))] : []),
    ...(names.length > 0 ? [extension("2.5.29.17", false, der.sequence(...names))] : []),
  ];
}

function keyIdentifier(publicKey: KeyObject): Buffer {
  return createHash("sha1")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest();
}

function extension(identifier: string, critical: boolean, value: Buffer): Buffer {
  return der.sequence(
    der.objectIdentifier(identifier),
    ...(critical ? [der.boolean(true)] : []),
    der.octetString(value),
  );
}
