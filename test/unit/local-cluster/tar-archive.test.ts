import { list } from "tar";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { tarArchive } from "../../../scripts/cluster/images/tar-archive.ts";

interface Entry {
  readonly path: string;
  readonly type: string;
  readonly mode: number;
  readonly linkTo: string;
  readonly content: Buffer;
}

function read(archive: Buffer): Map<string, Entry> {
  const entries = new Map<string, Entry>();
  const parser = list({
    sync: true,
    strict: true,
    onReadEntry(entry) {
      const chunks: Buffer[] = [];
      entry.on("data", (chunk: Buffer) => chunks.push(chunk));
      entry.on("end", () => {
        const { path, type, mode = 0, linkpath = "" } = entry;
        entries.set(path, { path, type, mode, linkTo: linkpath, content: Buffer.concat(chunks) });
      });
    },
  });
  parser.end(archive);
  return entries;
}

test("tarArchive keeps types, modes, owners and contents of any length", () => {
  const contents = [0, 1, 511, 512, 513].map((length) => Buffer.alloc(length, 7));
  const entries = read(
    tarArchive([
      { path: "folder", mode: 0o1777 },
      { path: "link", linkTo: "folder" },
      ...contents.map((content, index) => ({ path: `folder/${index}`, content, mode: 0o640 })),
    ]),
  );
  assert.is(entries.get("folder/")?.type, "Directory");
  assert.is(entries.get("folder/")?.mode, 0o1777);
  assert.is(entries.get("link")?.linkTo, "folder");
  contents.forEach((content, index) => {
    assert.is(entries.get(`folder/${index}`)?.mode, 0o640);
    assert.ok(entries.get(`folder/${index}`)?.content.equals(content));
  });
});

test("tarArchive gives a program capabilities, as setcap would, and nothing else", () => {
  const archive = tarArchive([
    { path: "plain", content: Buffer.from("p") },
    { path: "mapper", content: Buffer.from("m"), mode: 0o755, capabilities: [7, 33] },
  ]);
  assert.is(read(archive).get("mapper")?.content.toString(), "m");
  const name = "SCHILY.xattr.security.capability=";
  const at = archive.indexOf(name);
  assert.is(archive.lastIndexOf(name), at);
  assert.ok(archive.indexOf("plain") < at && at < archive.indexOf("mapper"));
  // linux/capability.h: revision 2 with the effective bit, then permitted and inheritable of each half.
  const value = Buffer.from("01000002800000000000000002000000" + "00000000", "hex");
  assert.equal(archive.subarray(at + name.length, at + name.length + value.length), value);
  const length = name.length + value.length + "57 \n".length;
  assert.is(archive.subarray(at - 3, at).toString(), `${length} `);
  assert.is(archive[at - 3 + length - 1], "\n".charCodeAt(0));
});

test("tarArchive refuses a name that the format has no room for", () => {
  assert.throws(() => tarArchive([{ path: "a".repeat(100) }]), /longer than 99 bytes/);
});

test.run();
