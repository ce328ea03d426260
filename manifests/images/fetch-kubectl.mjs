// node fetch-kubectl.mjs VERSION ARCHITECTURE PATH: fetches the official kubectl and holds it against its published SHA-256.
import { createHash } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";

const [version, architecture, path] = process.argv.slice(2);
const url = `https://dl.k8s.io/release/${version}/bin/linux/${architecture}/kubectl`;
const LIMIT_MS = 300_000;

async function fetchBytes(from) {
  const response = await fetch(from, { signal: AbortSignal.timeout(LIMIT_MS) });
  if (!response.ok) throw new Error(`Cannot fetch ${from}: status ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

const [program, published] = await Promise.all([fetchBytes(url), fetchBytes(`${url}.sha256`)]);
const digest = createHash("sha256").update(program).digest("hex");
const wanted = published.toString("utf8").trim();
if (digest !== wanted) throw new Error(`Cannot use ${url}: its SHA-256 is ${digest}, not ${wanted}`);
await writeFile(path, program);
await chmod(path, 0o755);
