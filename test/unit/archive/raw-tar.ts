/** An entry exactly as a hostile hand would write it. */
export interface RawEntry {
  readonly name: string;
  /** @default "0" */
  readonly type?: string | undefined;
  readonly target?: string | undefined;
  readonly content?: Buffer | undefined;
  /** Said in the header, whatever the content is. */
  readonly size?: number | undefined;
  readonly mode?: number | undefined;
  readonly prefix?: string | undefined;
}

export const tarEnd = Buffer.alloc(1024);

/** One entry in ustar's format, its header and its padded content. */
export function rawEntry({
  name,
  type = "0",
  target = "",
  content,
  size,
  mode = 0o644,
  prefix = "",
}: RawEntry): Buffer {
  const body = content ?? Buffer.alloc(0);
  const block = Buffer.alloc(512);
  block.write(name, 0, 100, "latin1");
  block.write(`${mode.toString(8).padStart(7, "0")}\0`, 100, "latin1");
  block.write("0000000\0", 108, "latin1");
  block.write("0000000\0", 116, "latin1");
  block.write(`${(size ?? body.length).toString(8).padStart(11, "0")}\0`, 124, "latin1");
  block.write("00000000000\0", 136, "latin1");
  block.fill(" ", 148, 156);
  block.write(type, 156, "latin1");
  block.write(target, 157, 100, "latin1");
  block.write("ustar\x0000", 257, "latin1");
  block.write(prefix, 345, 155, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return Buffer.concat([block, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}

/** A whole archive of them. */
export function rawTar(entries: readonly RawEntry[]): Buffer {
  return Buffer.concat([...entries.map(rawEntry), tarEnd]);
}
