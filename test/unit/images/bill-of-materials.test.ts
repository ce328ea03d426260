import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { debianComponent, npmComponents } from "../../../scripts/images/bill-of-materials.ts";

const test = suite<{ file: string }>("images/bill-of-materials");
test.before.each((context) => {
  context.file = join(mkdtempSync(join(tmpdir(), "tenancy-bill-")), "file");
});
test.after.each(({ file }) => rmSync(join(file, ".."), { recursive: true }));

test("debianComponent escapes what a package URL has other meanings for", () => {
  const libc = debianComponent("Package: libc6\nVersion: 1:2.36-9+deb12u14\nArchitecture: amd64\nDepends: libgcc-s1\n");
  assert.is(libc.version, "1:2.36-9+deb12u14");
  assert.is(libc.purl, "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u14?arch=amd64");
});

test("npmComponents returns what the lock file says, of the nested one for a nested one", ({ file }) => {
  const packages = {
    "node_modules/@a/b": { version: "1.0.0", license: "MIT", integrity: "sha512-AAEC" },
    "node_modules/c": { version: "2.0.0" },
    "node_modules/@a/b/node_modules/c": { version: "1.9.0" },
  };
  writeFileSync(file, JSON.stringify({ packages }));
  const found = npmComponents(file, ["node_modules/@a/b", "node_modules/@a/b/node_modules/c"]);
  assert.equal(found, [
    {
      ...{ type: "library", name: "@a/b", version: "1.0.0", license: "MIT", sha512: "AAEC" },
      purl: "pkg:npm/%40a/b@1.0.0",
    },
    { type: "library", name: "c", version: "1.9.0", purl: "pkg:npm/c@1.9.0" },
  ]);
  assert.throws(() => npmComponents(file, ["node_modules/none"]), /Cannot find node_modules\/none in /);
});

test.run();
