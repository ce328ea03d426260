// Runs a TypeScript script of this folder on a bare clone: checks Node, installs the node modules when they are missing or
// older than package-lock.json, then hands over. Plain JavaScript, because nothing else can run before the modules exist.
//   node scripts/bootstrap.mjs SCRIPT [ARGUMENTS]
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

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
  const started = Date.now();
  console.error("installing the node modules of package-lock.json (npm ci)");
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (npm.error) fail(`Cannot run npm: ${npm.error.message}`);
  if (npm.status !== 0) fail("npm ci failed: see its message above; run this again when that is mended");
  writeFileSync(stamp, lock);
  console.error(`installed the node modules in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

function runScript() {
  const child = spawn(process.execPath, ["--import", "tsx", join(root, script), ...scriptArguments], {
    stdio: "inherit",
    env: { ...process.env, PATH: `${join(root, "node_modules", ".bin")}:${process.env.PATH}` },
  });
  // A terminal sends Ctrl-C to the whole group: the script stops in its own time and this process reports how it ended.
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
