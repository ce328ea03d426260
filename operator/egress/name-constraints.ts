/**
 * DER of a NameConstraints extension that permits the names, with what is below them, and no IP address at all
 * (RFC 5280, section 4.2.1.10).
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
