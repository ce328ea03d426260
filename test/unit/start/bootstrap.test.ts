// @runtimes node
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";

const test = suite("bootstrap");
const folder = mkdtempSync(join(tmpdir(), "tenancy-bootstrap-"));
test.after(() => rmSync(folder, { recursive: true }));

const entry = { version: "1.0.0", integrity: "sha512-right" };

/**
 * A clone with the one module that bootstrap needs itself, and an npm that says that it was run and installs nothing.
 */
function clone(name: string): { root: string; write(path: string, content: unknown, mode?: number): void } {
  const root = join(folder, name);
  const write = (path: string, content: unknown, mode = 0o644): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), typeof content === "string" ? content : JSON.stringify(content), { mode });
  };
  const packages = { "node_modules/tsx": entry };
  const other = { "node_modules/other-system": { ...entry, optional: true } };
  write("package-lock.json", { packages: { "": { name: "clone" }, ...packages, ...other } });
  write("node_modules/.package-lock.json", { packages });
  write("node_modules/tsx/package.json", { name: "tsx", version: "1.0.0", type: "module", exports: "./index.js" });
  write("node_modules/tsx/index.js", "");
  for (const program of ["bun", "deno", "esbuild"]) write(`node_modules/.bin/${program}`, "#!/bin/sh\n", 0o755);
  write("path/npm", `#!/bin/sh\necho ran > ${root}/npm-ran\n`, 0o755);
  write("scripts/hello.mjs", 'console.log("hello");');
  cpSync("scripts/bootstrap.mjs", join(root, "scripts/bootstrap.mjs"));
  return { root, write };
}

function installs(root: string): boolean {
  rmSync(join(root, "npm-ran"), { force: true });
  const env = { ...process.env, PATH: `${root}/path:${process.env.PATH}` };
  const run = spawnSync(process.execPath, ["scripts/bootstrap.mjs", "scripts/hello.mjs"], { cwd: root, env });
  assert.is(run.stdout.toString(), "hello\n", run.stderr.toString());
  return existsSync(join(root, "npm-ran"));
}

test("modules that somebody has installed and that fit package-lock.json are not installed again", () => {
  const { root, write } = clone("fitting");
  assert.not.ok(installs(root));
  assert.not.ok(installs(root));
  // A lock that has changed since asks for others.
  write("package-lock.json", { packages: { "node_modules/tsx": { ...entry, version: "1.0.1" } } });
  assert.ok(installs(root));
});

const misfits: [what: string, path: string, content: unknown][] = [
  [
    "a package of another build",
    "node_modules/.package-lock.json",
    { packages: { "node_modules/tsx": { ...entry, integrity: "sha512-other" } } },
  ],
  ["a package too few", "node_modules/.package-lock.json", { packages: {} }],
  [
    "a package too many",
    "node_modules/.package-lock.json",
    { packages: { "node_modules/tsx": entry, "node_modules/more": entry } },
  ],
  [
    "a folder of another version",
    "node_modules/tsx/package.json",
    { name: "tsx", version: "2.0.0", exports: "./index.js" },
  ],
  ["no word of npm", "node_modules/.package-lock.json", "gone"],
  ["a program whose install script did not run", "node_modules/.bin/bun", "#!/bin/sh\nexit 1\n"],
];
for (const [what, path, content] of misfits) {
  test(`modules with ${what} are installed anew`, () => {
    const { root, write } = clone(what.replaceAll(" ", "-"));
    write(path, content, path.includes(".bin") ? 0o755 : 0o644);
    if (content === "gone") rmSync(join(root, path));
    assert.ok(installs(root));
  });
}

test("a script is told to stop when bootstrap is killed", async () => {
  const { root, write } = clone("killed");
  const stopped = join(root, "stopped");
  write(
    "scripts/hello.mjs",
    `import { writeFileSync } from "node:fs";
    process.on("SIGTERM", () => { writeFileSync(${JSON.stringify(stopped)}, "by SIGTERM"); process.exit(0); });
    setInterval(() => undefined, 1000);
    console.log("runs");`,
  );
  const child = spawn(process.execPath, ["scripts/bootstrap.mjs", "scripts/hello.mjs"], { cwd: root });
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await waitUntil(() => existsSync(stopped) && readFileSync(stopped, "utf8") === "by SIGTERM", {
    ...{ what: "the script to stop", limitMs: 60_000 },
  });
});

test.run();
