/** The handful of DER encodings that an X.509 certificate needs (ITU-T X.690). */
export const der = {
  sequence: (...items: Uint8Array[]): Buffer => encode(0x30, Buffer.concat(items)),
  set: (...items: Uint8Array[]): Buffer => encode(0x31, Buffer.concat(items)),
  integer: (value: Buffer): Buffer =>
    encode(0x02, (value[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), value]) : value),
  boolean: (value: boolean): Buffer => encode(0x01, Buffer.of(value ? 0xff : 0)),
  octetString: (content: Uint8Array): Buffer => encode(0x04, content),
  bitString: (content: Uint8Array, unusedBits = 0): Buffer =>
    encode(0x03, Buffer.concat([Buffer.of(unusedBits), content])),
  utf8String: (text: string): Buffer => encode(0x0c, Buffer.from(text)),
  time,
  objectIdentifier,
  /** A field with a context-specific tag, around other fields (`constructed`) or in place of a primitive one. */
  context: (tag: number, content: Uint8Array, constructed: boolean): Buffer =>
    encode(0x80 | (constructed ? 0x20 : 0) | tag, content),
};

/** Two-digit years up to 2049, four digits from then on (RFC 5280 section 4.1.2.5). */
function time(date: Date): Buffer {
  const digits = `${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, "")}Z`;
  return date.getUTCFullYear() < 2050 ? encode(0x17, Buffer.from(digits.slice(2))) : encode(0x18, Buffer.from(digits));
}

function encode(tag: number, content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(tag), length(content.length), content]);
}

function length(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes);
  const digits: number[] = [];
  for (let rest = bytes; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256);
  return Buffer.of(0x80 | digits.length, ...digits);
}

function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const digits = [arc % 128];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) digits.unshift(128 | (left % 128));
    bytes.push(...digits);
  }
  return encode(0x06, Buffer.from(bytes));
}
