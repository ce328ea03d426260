import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cachedGoProgram } from "../../../scripts/cluster/sources/cached-go-program.ts";

const test = suite<{ folder: string; find(firstModule?: string): Promise<string>; calls(): string[] }>(
  "cachedGoProgram",
);

/** In place of Go: writes down what it is called with, and builds itself as the program. */
const GO = `#!/bin/sh
[ "$1" = env ] && echo go1.26.0 && exit
for last; do [ "$previous" = -o ] && output=$last; previous=$last; done
echo "$1 $2" >> "$(dirname "$0")/calls"
[ "$1" != build ] || cp "$0" "$output/program"
`;

test.before.each((context) => {
  const folder = mkdtempSync(join(tmpdir(), "cached-go-program-test-"));
  const moduleFolder = join(folder, "module");
  mkdirSync(moduleFolder);
  writeFileSync(join(moduleFolder, "go.mod"), "module example.com/program\n");
  writeFileSync(join(moduleFolder, "main.go"), "package main\n");
  writeFileSync(join(folder, "go"), GO);
  chmodSync(join(folder, "go"), 0o755);
  writeFileSync(join(folder, "calls"), "");
  context.folder = folder;
  context.find = (firstModule) =>
    cachedGoProgram({
      ...{ what: "program", program: "program", cache: "program", packages: ["."], minimumGo: "1.24", duration: "1 s" },
      ...{ moduleFolder, environment: { XDG_CACHE_HOME: folder, PATH: `${folder}:${process.env.PATH}` } },
      ...(firstModule !== undefined && { firstModule }),
    });
  context.calls = () => readFileSync(join(folder, "calls"), "utf8").trimEnd().split("\n");
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

test("builds again when any source of the module changes, and not for its tests", async ({ folder, find }) => {
  const first = await find();
  writeFileSync(join(folder, "module/main_test.go"), "package main\n");
  assert.is(await find(), first);
  const found = new Set([first]);
  for (const [name, text] of [
    ["other.go", "package main\n"],
    ["other.go", "package main\n\nconst other = 1\n"],
    ["main.go", "package main\n\nfunc main() {}\n"],
  ] as const) {
    writeFileSync(join(folder, "module", name), text);
    found.add(await find());
  }
  assert.is(found.size, 4);
});

test("asks a module proxy only for a program that needs other modules", async ({ find, calls }) => {
  await find();
  assert.equal(calls(), ["list -mod=readonly", "build -mod=readonly"]);
});

test("asks a module proxy first for a program that needs other modules", async ({ find, calls }) => {
  await find("example.com/small");
  assert.equal(calls(), ["mod download", "list -mod=readonly", "build -mod=readonly"]);
});

test.run();
