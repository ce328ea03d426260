import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";

/** A self-signed certificate and its key, both in PEM. */
export interface SelfSigned {
  readonly certificate: string;
  readonly key: string;
}

/**
 * Creates a self-signed server certificate (RFC 5280), ECDSA on P-256, which its clients pin.
 *
 * @param options.name the only DNS name, in ASCII
 * @param options.from the start of its validity, before 2050
 * @param options.until the end of its validity
 */
export function makeSelfSigned({ name, from, until }: { name: string; from: Date; until: Date }): SelfSigned {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const publicBytes = publicKey.export({ type: "spki", format: "der" });
  const identifier = createHash("sha1").update(publicBytes).digest();
  const subject = sequence(set(sequence(oid.commonName, tagged(0x0c, Buffer.from(name)))));
  const signedWith = sequence(oid.ecdsaWithSha256);
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    // Positive, and never zero.
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    signedWith,
    subject,
    sequence(time(from), time(until)),
    subject,
    publicBytes,
    tagged(
      0xa3,
      sequence(
        extension(oid.basicConstraints, sequence(), { isCritical: true }),
        // digitalSignature, the first of eight bits.
        extension(oid.keyUsage, tagged(0x03, Buffer.from([7, 0x80])), { isCritical: true }),
        extension(oid.extendedKeyUsage, sequence(oid.serverAuth)),
        extension(oid.alternativeName, sequence(tagged(0x82, Buffer.from(name)))),
        extension(oid.subjectKeyIdentifier, tagged(0x04, identifier)),
        extension(oid.authorityKeyIdentifier, sequence(tagged(0x80, identifier))),
      ),
    ),
  );
  const signature = tagged(0x03, Buffer.concat([Buffer.from([0]), sign("sha256", body, privateKey)]));
  const encoded = sequence(body, signedWith, signature).toString("base64");
  const lines = encoded.match(/.{1,64}/g) ?? [];
  return {
    certificate: ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n"),
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

const oid = {
  ecdsaWithSha256: objectIdentifier("2a8648ce3d040302"),
  commonName: objectIdentifier("550403"),
  subjectKeyIdentifier: objectIdentifier("551d0e"),
  keyUsage: objectIdentifier("551d0f"),
  alternativeName: objectIdentifier("551d11"),
  basicConstraints: objectIdentifier("551d13"),
  authorityKeyIdentifier: objectIdentifier("551d23"),
  extendedKeyUsage: objectIdentifier("551d25"),
  serverAuth: objectIdentifier("2b06010505070301"),
};

function objectIdentifier(encoded: string): Buffer {
  return tagged(0x06, Buffer.from(encoded, "hex"));
}

function extension(id: Buffer, value: Buffer, { isCritical = false } = {}): Buffer {
  const critical = isCritical ? [tagged(0x01, Buffer.from([0xff]))] : [];
  return sequence(id, ...critical, tagged(0x04, value));
}

function integer(value: Buffer): Buffer {
  return tagged(0x02, value);
}

/** UTCTime: the year has two digits. */
function time(at: Date): Buffer {
  return tagged(0x17, Buffer.from(`${at.toISOString().replace(/^..|\..*|[-:T]/g, "")}Z`));
}

function set(...parts: readonly Buffer[]): Buffer {
  return tagged(0x31, Buffer.concat(parts));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

/** An element in DER, ITU-T X.690: a tag, the length in as few bytes as possible, and the content. */
function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const digits = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...digits]), content]);
}
