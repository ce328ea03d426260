/** A file, folder or link in an archive. */
export interface TarEntry {
  /** Relative, without a slash at the end; at most 100 bytes. */
  readonly path: string;
  readonly content?: Uint8Array;
  readonly linkTo?: string;
  /** @default 0o755 for folders and links, 0o644 for files */
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  /** Of a program: bits of the capabilities that it gets when it runs, such as 7 for CAP_SETUID (capabilities(7)). */
  readonly capabilities?: readonly number[];
}

const BLOCK = 512;

/**
 * Returns a ustar archive (POSIX.1-1988; capabilities in headers of POSIX.1-2001) that is the same, byte for byte, for
 * the same entries.
 */
export function tarArchive(entries: readonly TarEntry[]): Buffer {
  const parts: Buffer[] = [];
  for (const entry of entries) {
    if (entry.capabilities !== undefined) parts.push(...capabilityHeader(entry.capabilities));
    parts.push(header(entry));
    if (entry.content !== undefined) parts.push(...padded(entry.content));
  }
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function padded(content: Uint8Array): Buffer[] {
  return [Buffer.from(content), Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)];
}

/**
 * What gives the entry after it the attribute `security.capability`, as containerd and Docker read it: `struct
 * vfs_cap_data` of revision 2.
 */
function capabilityHeader(bits: readonly number[]): Buffer[] {
  const value = Buffer.alloc(20);
  const REVISION_2_EFFECTIVE = 0x02000001;
  value.writeUInt32LE(REVISION_2_EFFECTIVE, 0);
  for (const bit of bits) {
    const permitted = 4 + 8 * (bit >> 5);
    value.writeUInt32LE((value.readUInt32LE(permitted) | (1 << (bit & 31))) >>> 0, permitted);
  }
  const record = Buffer.concat([Buffer.from(" SCHILY.xattr.security.capability="), value, Buffer.from("\n")]);
  // The length of a record counts its own digits.
  const content = Buffer.concat([Buffer.from(String(record.length + 2)), record]);
  return [header({ path: "PaxHeaders/capability", content }, "x"), ...padded(content)];
}

function header({ path, content, linkTo, mode, uid = 0, gid = 0 }: TarEntry, special?: "x"): Buffer {
  if (Buffer.byteLength(path) > 99) throw new Error(`Cannot archive "${path}": its name is longer than 99 bytes`);
  const type = linkTo !== undefined ? "2" : content === undefined ? "5" : "0";
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, width: number): void => {
    block.write(`${value.toString(8).padStart(width - 1, "0")}\0`, offset, "latin1");
  };
  block.write(type === "5" ? `${path}/` : path, 0);
  octal(mode ?? (type === "0" ? 0o644 : 0o755), 100, 8);
  octal(uid, 108, 8);
  octal(gid, 116, 8);
  octal(content?.length ?? 0, 124, 12);
  octal(0, 136, 12);
  block.write("        ", 148, "latin1");
  block.write(special ?? type, 156, "latin1");
  block.write(linkTo ?? "", 157);
  block.write("ustar\x0000", 257, "latin1");
  let checksum = 0;
  for (const byte of block) checksum += byte;
  block.write(`${checksum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}
