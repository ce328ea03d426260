// Runs a TypeScript script of this folder in a new clone. Checks Node, and installs the node modules if they are
// missing or older than package-lock.json. It is plain JavaScript, because nothing else can run before that.
//   node scripts/bootstrap.mjs SCRIPT [ARGUMENTS]
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The path in Debian's util-linux, and in most other distributions. */
const SETPRIV = "/usr/bin/setpriv";
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [script, ...scriptArguments] = process.argv.slice(2);
if (script === undefined) fail("usage: node scripts/bootstrap.mjs SCRIPT [ARGUMENTS]");

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) fail(`Node 20.19 or later is needed; this is ${process.versions.node}`);

installModules();
runScript();

function installModules() {
  const stamp = join(root, "node_modules", ".installed-from");
  const lock = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  if (modulesFit()) return writeFileSync(stamp, lock);
  const started = Date.now();
  console.error("installing the node modules of package-lock.json (npm ci)");
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (npm.error) fail(`Cannot run npm: ${npm.error.message}`);
  if (npm.status !== 0) fail("npm ci failed: see its message above; fix that and run this again");
  writeFileSync(stamp, lock);
  console.error(`installed the node modules in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

/** Whether everything in package-lock.json is installed, and the packages' install scripts were run. */
function modulesFit() {
  const read = (...path) => JSON.parse(readFileSync(join(root, ...path), "utf8"));
  const installed = join("node_modules", ".package-lock.json");
  if (!existsSync(join(root, installed))) return false;
  const there = read(installed).packages;
  const { "": _, ...wanted } = read("package-lock.json").packages;
  const fits = Object.entries(wanted).every(([path, { version, integrity, optional }]) => {
    // Some optional packages are for other systems.
    if (there[path] === undefined) return optional === true;
    if (there[path].version !== version || there[path].integrity !== integrity) return false;
    return existsSync(join(root, path, "package.json")) && read(path, "package.json").version === version;
  });
  // Without their install scripts, these packages exist but do not run.
  const runs = (program) => spawnSync(join(root, "node_modules", ".bin", program), ["--version"]).status === 0;
  return fits && Object.keys(there).every((path) => path in wanted) && ["bun", "deno", "esbuild"].every(runs);
}

function runScript() {
  // The script has to stop too when this process is killed. The signal survives exec.
  const withParent = existsSync(SETPRIV) ? [SETPRIV, "--pdeathsig", "TERM", "--"] : [];
  const [program, ...words] = [...withParent, process.execPath, "--import", "tsx", join(root, script)];
  const child = spawn(program, [...words, ...scriptArguments], {
    stdio: "inherit",
    env: { ...process.env, PATH: `${join(root, "node_modules", ".bin")}:${process.env.PATH}` },
  });
  // A terminal sends Ctrl-C to the whole group. The script ends when it is ready; this process reports how it ended.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on("error", (error) => fail(`Cannot start ${script}: ${error.message}`));
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? (signal === "SIGINT" ? 130 : 1);
  });
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
