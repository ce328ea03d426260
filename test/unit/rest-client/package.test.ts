// @runtimes node
// @limit 300
// The npm package of the client, as its users install it.
import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { buildClientPackage } from "../../../scripts/client/build-package.ts";

const test = suite("the package tenancy-client");
const root = join(import.meta.dirname, "../../..");
/** A folder with the package in its `node_modules`. */
let folder: string;

test.before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tenancy-package-"));
  const built = join(folder, "built");
  await buildClientPackage(root, built);
  await promisify(execFile)("npm", ["pack", "--pack-destination", folder], { cwd: built });
  const modules = join(folder, "node_modules/tenancy-client");
  mkdirSync(modules, { recursive: true });
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const archive = join(folder, `tenancy-client-${version}.tgz`);
  await promisify(execFile)("tar", ["-xzf", archive, "-C", modules, "--strip-components=1"]);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
});
test.after(() => rmSync(folder, { recursive: true, force: true }));

function run(command: string[], source: string): string {
  writeFileSync(join(folder, "use.mjs"), source);
  const [program = "", ...words] = command;
  const { stdout, stderr, error } = spawnSync(program, [...words, "use.mjs"], { cwd: folder, encoding: "utf8" });
  if (error !== undefined) throw error;
  return `${stdout}${stderr}`;
}

const source = `
import { ApiError, createClient } from "tenancy-client";
const fetch = async (url) => url.endsWith("/claim")
  ? Response.json({ phase: "Active" }, { status: 201 })
  : Response.json({ error: "no" }, { status: 404 });
const client = createClient({ url: "http://127.0.0.1:9", fetch });
const { phase } = await client.claim("ann", "app");
const error = await client.claims().catch((error) => error);
console.log(phase, error instanceof ApiError, error.status);
`;

test("it runs under Node, Bun and Deno", () => {
  for (const command of [["node"], ["bun"], ["deno", "run", "--allow-env", "--quiet"]])
    assert.is(run(command, source), "Active true 404\n", command[0]);
});

test("without a WebSocket of the runtime it uses the package ws, or says to install it", () => {
  const source = `
delete globalThis.WebSocket;
import { createClient } from "tenancy-client";
const client = createClient({ url: "http://127.0.0.1:9", retries: 0 });
console.log(await client.processes.terminal("inst-a").catch((error) => error.message));
`;
  assert.match(run(["node"], source), "install the package ws");
  symlinkSync(join(root, "node_modules/ws"), join(folder, "node_modules/ws"));
  assert.match(run(["node"], source), "the WebSocket of inst-a cannot be opened");
});

test("it is bundled for a browser, without anything of Node", async () => {
  writeFileSync(join(folder, "use.mjs"), source);
  const { warnings, metafile, outputFiles } = await build({
    ...{ absWorkingDir: folder, entryPoints: ["use.mjs"], bundle: true, format: "esm", platform: "browser" },
    ...{ minify: true, write: false, metafile: true, logLevel: "silent" },
  });
  assert.is(warnings.length, 0);
  const [output] = Object.values(metafile.outputs);
  assert.equal(output?.imports, []);
  assert.ok((outputFiles?.[0]?.contents.length ?? 0) < 24 * 1024);
});

const good = `
import { ApiError, type Claim, type Client, createClient } from "tenancy-client";

const client: Client = createClient({ url: "http://127.0.0.1:8080", key: async () => "k" });
export async function use(): Promise<Claim> {
  const claim = await client.claim("ann", "app", { resume: { version: "v1" }, env: { A: "b" } });
  const host: string | undefined = claim.endpoint?.host;
  const { stdout }: { stdout: string } = await client.run(claim, ["hostname"]);
  const { name } = await client.call("GET /api/v1/pools/{name}", { path: { name: host ?? stdout } });
  for await (const item of client.all("GET /api/v1/claims", { query: { limit: 10 } })) console.log(item.uid, name);
  await client.files.write({ tenant: "ann", workload: "app", wake: true }, "a", new Blob(["x"]).stream());
  await client.call("POST /api/v1/workloads", { body: { name: "w", spec: { image: { ref: "a:1" } } } });
  return claim;
}
export const statusOf = (error: unknown): number => (error instanceof ApiError ? error.status : 0);
`;
/** Each is refused. */
const mistakes = [
  `client.claim("a", "b", { resum: true })`,
  `client.call("POST /api/v1/tenants/{id}/claim", { path: {}, body: { workload: "a" } })`,
  `client.call("GET /api/v1/nothing")`,
  `client.call("POST /api/v1/pools", { body: { name: "p", spec: { size: 1 } } })`,
  `client.call("GET /api/v1/pools/{name}")`,
  `client.all("GET /api/v1/stats")`,
  `client.run("inst-a", "hostname")`,
];

test("its types accept what the API accepts, and refuse mistakes", () => {
  const problems = (source: string, resolution: string[]): string => {
    writeFileSync(join(folder, "use.ts"), source);
    const strict = ["--strict", "--exactOptionalPropertyTypes", "--noEmit", "--target", "es2022", "--types", ""];
    const words = [...strict, "--lib", "es2023,dom", ...resolution, "use.ts"];
    return spawnSync("tsc", words, { cwd: folder, encoding: "utf8" }).stdout;
  };
  for (const resolution of [
    ["--module", "nodenext"],
    ["--module", "esnext", "--moduleResolution", "bundler"],
  ])
    assert.is(problems(good, resolution), "");
  const all = `${good}\n${mistakes.map((line, at) => `export const x${at} = ${line};`).join("\n")}`;
  const said = problems(all, ["--module", "nodenext"]);
  const lines = new Set([...said.matchAll(/^use\.ts\((\d+),\d+\): error TS/gm)].map(([, line]) => line));
  assert.is(lines.size, mistakes.length, said);
});

test.run();
