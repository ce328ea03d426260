import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { missingDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { neededLibraries } from "../../../scripts/cluster/images/unpack-debian-packages.ts";
import { debianArchive } from "../../../scripts/cluster/sources/debian-source.ts";

const test = suite<{ folder: string }>("debian");
test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "debian-test-"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

test("missingDebianPackages leaves out what is installed, and nothing else", ({ folder }) => {
  const status = join(folder, "status");
  writeFileSync(
    status,
    [
      "Package: runc\nStatus: install ok installed\nVersion: 1",
      "Package: containerd\nStatus: deinstall ok config-files\nVersion: 1",
      "Package: etcd-server\nStatus: hold ok installed\nVersion: 1",
    ].join("\n\n"),
  );
  assert.equal(missingDebianPackages(["runc", "containerd", "etcd-server", "iproute2"], status), [
    "containerd",
    "iproute2",
  ]);
});

test("missingDebianPackages says what to install by hand where there is no dpkg", ({ folder }) => {
  assert.throws(() => missingDebianPackages(["runc"], join(folder, "status")), /this is not Debian; .*: runc/);
});

test("neededLibraries follows libraries alone, the first of alternatives, and not the C library", () => {
  const listing = `haproxy
 |Depends: libsystemd0
  Depends: libelogind0
  PreDepends: init-system-helpers
  Depends: adduser
  Depends: libc6
  Depends: libssl3
  Depends: <libvirtual>
    libvirtual-impl
init-system-helpers
  Depends: libperl
libssl3
  Depends: libc6
  Depends: zlib1g
zlib1g
libsystemd0
  Depends: libssl3
`;
  assert.equal(neededLibraries(listing, ["haproxy"]), ["haproxy", "libsystemd0", "libssl3", "zlib1g"]);
});

test("debianArchive reads both ways of writing sources, and no comment", ({ folder }) => {
  assert.is(debianArchive(folder), undefined);
  mkdirSync(join(folder, "sources.list.d"));
  writeFileSync(
    join(folder, "sources.list.d", "debian.sources"),
    "Types: deb\n# URIs: http://old.example/debian\nURIs: http://mirror.example/debian\nSuites: bookworm\n",
  );
  assert.is(debianArchive(folder), "http://mirror.example/debian");
  writeFileSync(join(folder, "sources.list"), "deb [trusted=no] https://first.example/pub/debian/ bookworm main\n");
  assert.is(debianArchive(folder), "https://first.example/pub/debian/");
});

test.run();
