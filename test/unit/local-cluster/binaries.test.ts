import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { PROGRAMS } from "../../../scripts/cluster/programs.ts";
import type { BinariesSource, SourceResult } from "../../../scripts/cluster/sources/binaries-source.ts";
import { cacheSource } from "../../../scripts/cluster/sources/cache.ts";

const test = suite<{ folder: string; environment: NodeJS.ProcessEnv }>("findBinaries");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "binaries-test-"));
  context.environment = { XDG_CACHE_HOME: context.folder, PATH: process.env.PATH ?? "" };
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

function programsIn(folder: string, names: readonly string[] = PROGRAMS): string {
  mkdirSync(folder, { recursive: true });
  for (const name of names) {
    writeFileSync(join(folder, name), "#!/bin/sh\necho Kubernetes v1.30.1\n");
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

function source(name: string, takesLong: boolean, find: () => SourceResult): BinariesSource {
  return { name, takesLong, find: async () => find() };
}

test("takes the first source that has them and asks none after it", async ({ folder, environment }) => {
  const binaries = await findBinaries({
    environment,
    sources: [
      source("none", true, () => ({ because: "not today" })),
      source("some", true, () => ({ folder: programsIn(join(folder, "some")), version: "v1.2.3" })),
      source("later", true, () => assert.unreachable() as never),
    ],
  });
  assert.is(binaries.source, "some");
  assert.is(binaries.version, "v1.2.3");
  assert.is(binaries.programs.kubelet, join(folder, "some", "kubelet"));
});

test("goes on when building fails, and says of every place why it had none", async ({ environment }) => {
  const lines: string[] = [];
  const failing = source("broken", true, () => {
    throw new Error("the compiler is out of memory");
  });
  const empty = source("empty", true, () => ({ because: "nothing there" }));
  await findBinaries({ environment, sources: [failing, empty], log: (line) => lines.push(line) }).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /broken: the compiler is out of memory\n {2}empty: nothing there/),
  );
  assert.equal(lines, ["not from broken: the compiler is out of memory", "not from empty: nothing there"]);
});

test("stops at a folder that the user has named and that lacks a program", async ({ folder, environment }) => {
  const named = programsIn(join(folder, "named"), ["kube-apiserver", "kubelet"]);
  const find = findBinaries({ environment: { ...environment, TENANCY_K8S_BIN: named } });
  await find.then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /it has no kube-controller-manager, kube-scheduler/),
  );
});

test("installs Debian's etcd when neither the set nor the PATH has one", async ({ folder }) => {
  const set = programsIn(join(folder, "set"), ["kube-apiserver"]);
  const bin = join(folder, "bin");
  const installed: string[] = [];
  const binaries = await findBinaries({
    environment: { XDG_CACHE_HOME: folder, PATH: bin },
    need: ["kube-apiserver", "etcd"],
    sources: [source("set", false, () => ({ folder: set, version: "v1.2.3" }))],
    install: async (packages) => {
      installed.push(...packages);
      programsIn(bin, ["etcd"]);
    },
  });
  assert.equal(installed, ["etcd-server"]);
  assert.is(binaries.programs.etcd, join(bin, "etcd"));
});

test("takes the newest complete set of the cache, by number and not by letter", async ({ folder, environment }) => {
  const sets = join(folder, "tenancy", "kubernetes");
  for (const name of ["go-modules-v1.9.0", "official-release-v1.34.10", "debian-source-v1.34.9"]) {
    programsIn(join(sets, name));
  }
  programsIn(join(sets, "go-modules-v1.40.0"), ["kubelet"]);
  programsIn(join(sets, "go-modules-v1.41.0.unfinished"));
  const newest = await findBinaries({ environment, sources: [cacheSource()] });
  assert.is(newest.version, "v1.34.10");
  const built = await findBinaries({ environment, sources: [cacheSource("go-modules")] });
  assert.is(built.version, "v1.9.0");
});

test("builds once when two ask at the same time", async ({ folder, environment }) => {
  let builds = 0;
  const building: BinariesSource = {
    name: "go-modules",
    takesLong: true,
    async find({ binariesFolder }) {
      builds += 1;
      return { folder: programsIn(join(binariesFolder, "go-modules-v1.2.3")), version: "v1.2.3" };
    },
  };
  const sources = [cacheSource(), building];
  const both = await Promise.all([findBinaries({ environment, sources }), findBinaries({ environment, sources })]);
  assert.is(builds, 1);
  assert.equal(
    both.map(({ programs }) => programs.kubelet?.startsWith(folder)),
    [true, true],
  );
});

test.run();
