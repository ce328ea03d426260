import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { suite } from "uvu";
import * as assert from "uvu/assert";

const test = suite("edge/image");

const root = join(import.meta.dirname, "../../..");
const bun = join(root, "node_modules/.bin/bun");

/** Does in a folder what the first stage of the Dockerfile does, with the node modules that are there. */
function buildStage(folder: string): void {
  const [, stage = ""] = readFileSync(join(root, "manifests/images/edge.Dockerfile"), "utf8").split(/^FROM .*$/m);
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  for (const [, word, rest = ""] of stage.matchAll(/^(COPY|RUN) (.+)$/gm)) {
    if (word === "RUN" && rest !== "npm ci") execFileSync("sh", ["-c", rest], { cwd: folder, stdio: "pipe" });
    if (word !== "COPY") continue;
    const parts = rest.split(" ");
    const to = parts.pop() ?? "";
    for (const from of parts)
      cpSync(join(root, from), join(folder, to.endsWith("/") ? join(to, basename(from)) : to), { recursive: true });
  }
}

test("the edge of the image, one file, serves the dashboard with all its files", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-image-"));
  const elsewhere = mkdtempSync(join(tmpdir(), "tenancy-image-"));
  try {
    buildStage(folder);
    cpSync(join(folder, "dist/edge.js"), join(elsewhere, "edge.js"));
    const kubeconfig = join(elsewhere, "kubeconfig");
    writeFileSync(kubeconfig, JSON.stringify(nowhere));
    const child = spawn(bun, [join(elsewhere, "edge.js")], {
      cwd: elsewhere,
      env: {
        PATH: process.env.PATH ?? "",
        HOME: elsewhere,
        KUBECONFIG: kubeconfig,
        TENANCY_LISTEN: "127.0.0.1:0",
        TENANCY_EDGE_METRICS_LISTEN: "off",
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const url = await listening(child.stdout);
      const page = await fetch(url);
      assert.is(page.status, 200);
      const files = [...(await page.text()).matchAll(/\/assets\/[\w.-]+/g)].map(([path]) => path);
      assert.is(files.length, 3);
      for (const path of files) assert.is((await fetch(url + path)).status, 200, path);
    } finally {
      child.kill("SIGKILL");
    }
  } finally {
    for (const one of [folder, elsewhere]) rmSync(one, { recursive: true });
  }
});

/** The edge listens before it has reached its cluster. */
const nowhere = {
  ...{ apiVersion: "v1", kind: "Config", "current-context": "nowhere" },
  contexts: [{ name: "nowhere", context: { cluster: "nowhere", user: "nobody" } }],
  clusters: [{ name: "nowhere", cluster: { server: "https://127.0.0.1:1" } }],
  users: [{ name: "nobody", user: { token: "none" } }],
};

async function listening(output: NodeJS.ReadableStream): Promise<string> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: output })) {
    if (line.includes('"edge listening"')) return (JSON.parse(line) as { url: string }).url;
    lines.push(line);
  }
  throw new Error(`the edge ended: ${lines.join("\n")}`);
}

test.run();
