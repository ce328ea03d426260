import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  billOfMaterials,
  type Component,
  debianComponent,
  goComponents,
  npmComponents,
} from "../../../scripts/images/bill-of-materials.ts";

const test = suite<{ file: string }>("images/bill-of-materials");
test.before.each((context) => {
  context.file = join(mkdtempSync(join(tmpdir(), "tenancy-bill-")), "file");
});
test.after.each(({ file }) => rmSync(join(file, ".."), { recursive: true }));

const pino: Component = { type: "library", name: "pino", version: "1.0.0", purl: "pkg:npm/pino@1.0.0", license: "MIT" };
const libc = debianComponent("Package: libc6\nVersion: 1:2.36-9+deb12u14\nArchitecture: amd64\nDepends: libgcc-s1\n");

test("debianComponent escapes what a package URL has other meanings for", () => {
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

test("goComponents reads the modules and the toolchain that a Go program was built with", ({ file }) => {
  const header = Buffer.alloc(32);
  header.write("\xff Go buildinf:", "latin1");
  const mark = Buffer.from("3077af0c9274080241e1c107e6d618e6", "hex");
  const end = Buffer.from("f932433186182072008242104116d8f2", "hex");
  const modules =
    "path\tk8s.io/k/cmd\nmod\tk8s.io/k\tv1.34.1\th1:x=\ndep\tgolang.org/x/net\tv0.1.0\th1:y=\nbuild\t-a=b\n";
  const info = [header, Buffer.from("\x08go1.26.8\x20"), mark, Buffer.from(modules), end];
  // A program has the marks elsewhere too, for reading itself.
  writeFileSync(file, Buffer.concat([mark, end, Buffer.from("code"), ...info]));
  assert.equal(
    goComponents(file).map(({ type, purl }) => `${type} ${purl}`),
    [
      "application pkg:golang/k8s.io/k@v1.34.1",
      "library pkg:golang/golang.org/x/net@v0.1.0",
      "library pkg:golang/stdlib@1.26.8",
    ],
  );
  writeFileSync(file, "no Go");
  assert.throws(() => goComponents(file), /no build information of Go/);
});

test("billOfMaterials is the same for the same parts, in any order and twice", () => {
  const image = { name: "tenancy-edge", version: "0.1.0", created: "2026-01-01T00:00:00.000Z" };
  const bill = billOfMaterials(image, [pino, libc]);
  assert.ok(bill.equals(billOfMaterials(image, [libc, pino, libc])));
  const { bomFormat, metadata, components } = JSON.parse(bill.toString());
  assert.is(bomFormat, "CycloneDX");
  assert.is(metadata.timestamp, image.created);
  assert.equal(
    components.map(({ purl }: Component) => purl),
    [libc.purl, pino.purl],
  );
  assert.equal(components[1].licenses, [{ expression: "MIT" }]);
});

test.run();
