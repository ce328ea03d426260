const A = 1;
const AAAA = 28;

/**
 * Answers a DNS query (RFC 1035, section 4) of one question from a table of names; a name that is not there does not
 * exist.
 */
export function dnsAnswer(query: Buffer, records: ReadonlyMap<string, readonly string[]>): Buffer {
  const labels: string[] = [];
  let offset = 12;
  for (let length = query.readUInt8(offset); length > 0; length = query.readUInt8(offset)) {
    labels.push(query.toString("latin1", offset + 1, offset + 1 + length));
    offset += 1 + length;
  }
  const type = query.readUInt16BE(offset + 1);
  const question = query.subarray(12, offset + 5);
  const addresses = records.get(labels.join(".").toLowerCase());
  const answers = (addresses ?? [])
    .filter((address) => type === (address.includes(":") ? AAAA : A))
    .map((address) => {
      const data = address.includes(":") ? ipv6Bytes(address) : Buffer.from(address.split(".").map(Number));
      const head = Buffer.alloc(12);
      head.writeUInt16BE(0xc00c, 0);
      head.writeUInt16BE(type, 2);
      head.writeUInt16BE(1, 4);
      head.writeUInt32BE(1, 6);
      head.writeUInt16BE(data.length, 10);
      return Buffer.concat([head, data]);
    });
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  const NO_SUCH_NAME = 3;
  header.writeUInt16BE(0x8180 | (addresses === undefined ? NO_SUCH_NAME : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(answers.length, 6);
  return Buffer.concat([header, question, ...answers]);
}

function ipv6Bytes(address: string): Buffer {
  const [head = "", tail] = address.split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":"));
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const middle = tail === undefined ? [] : new Array<string>(8 - before.length - after.length).fill("0");
  return Buffer.concat([...before, ...middle, ...after].map((group) => Buffer.from(group.padStart(4, "0"), "hex")));
}
