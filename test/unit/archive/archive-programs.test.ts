import { execFileSync } from "node:child_process";
import { createWriteStream, linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { createArchivePacker } from "../../../crds/archive/archive-packer.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";
import { limits } from "./check-archive.ts";

const test = suite<{ folder: string }>("an archive is a tar.gz for any program");

test.before(async () => {
  await installDebianPackages(["libarchive-tools", "python3"], console.log);
});

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-programs-"));
});

test.after.each(({ folder }) => {
  rmSync(folder, { recursive: true, force: true });
});

/** Makes files of all kinds, and the archive that a save would make of them. */
async function makeArchive(folder: string): Promise<string> {
  const data = join(folder, "data");
  const deep = join(data, ..."deeper and deeper/".repeat(12).split("/"));
  mkdirSync(deep, { recursive: true });
  // Their table is in several members.
  for (let index = 0; index < 900; index += 1) {
    writeFileSync(join(data, `small ${index}`), `${index}\n`.repeat(index % 300));
  }
  writeFileSync(join(data, "large"), Buffer.alloc(9 * 1024 * 1024, "some text, "));
  writeFileSync(join(deep, "with a long path ünd another alphabet"), "x");
  writeFileSync(join(data, "empty"), "");
  symlinkSync("large", join(data, "link"));
  linkSync(join(data, "large"), join(data, "hard link"));
  const tar = execFileSync(staticBusybox, ["tar", "c", "-C", folder, "-f", "-", "data"], { maxBuffer: 64 * 1024 ** 2 });
  const packer = createArchivePacker();
  const check = createArchiveCheck({ roots: ["data"], limits, onEntry: packer.begin });
  const archive = join(folder, "archive.tar.gz");
  await pipeline(Readable.from([tar]), check.stream, packer.pack, createWriteStream(archive));
  assert.ok((packer.table()?.sizeBytes ?? 0) > 3 * 8192);
  return archive;
}

const programs: Readonly<Record<string, readonly string[]>> = {
  "GNU tar": ["tar", "xzf"],
  busybox: [staticBusybox, "tar", "xzf"],
  bsdtar: ["/usr/bin/bsdtar", "-xf"],
  Python: ["/usr/bin/python3", "-c", "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])"],
};

for (const [name, [program = "", ...words]] of Object.entries(programs)) {
  test(`${name} unpacks all of it, and says nothing`, async ({ folder }) => {
    const archive = await makeArchive(folder);
    const to = join(folder, "to");
    mkdirSync(to);
    const where = name === "Python" ? [archive, to] : [archive, "-C", to];
    const said = execFileSync("sh", ["-c", '"$@" 2>&1', "sh", program, ...words, ...where], { encoding: "utf8" });
    assert.is(said, "");
    execFileSync("diff", ["-r", "--no-dereference", join(folder, "data"), join(to, "data")]);
  });
}

test.run();
