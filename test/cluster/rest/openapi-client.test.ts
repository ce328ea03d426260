// @long needs packages of npm that nothing else does; test/unit/edge/openapi.test.ts checks the document
// @own-cluster
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { testEdge } from "../../unit/edge/test-edge.ts";
import { cachedInstall } from "./cached-install.ts";

const test = suite("client generated from the document by openapi-typescript");
const LIMIT_MS = 240_000;
const manifest = ["package.json", "package-lock.json"].map((name) => ({
  name,
  path: join(import.meta.dirname, "openapi-client", name),
}));

const good = `
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:8080", headers: { authorization: "Bearer key" } });

export async function use(): Promise<components["schemas"]["Claim"]> {
  const { data, error } = await client.POST("/api/v1/tenants/{id}/claim", {
    params: { path: { id: "alice" } },
    body: { workload: "notes", resume: true },
  });
  if (error !== undefined) throw new Error(error.error);
  const host: string | undefined = data.endpoint?.host;
  await client.POST("/api/v1/workloads", {
    body: { name: "notes", spec: { image: { ref: "a:1" }, network: { access: "restricted", allowlist: ["a.example"] } } },
  });
  const { data: listed } = await client.GET("/api/v1/claims", { params: { query: { limit: 10 } } });
  const names: string[] = listed?.map(({ name }) => name) ?? [];
  await client.PUT("/api/v1/pools/{name}", { params: { path: { name: "notes" } }, body: { spec: { workloadRef: "notes", size: names.length } } });
  await client.DELETE("/api/v1/triggers/{id}", { params: { path: { id: host ?? "t" } } });
  return data;
}
`;
/** Each is refused. */
const mistakes = [
  `client.POST("/api/v1/tenants/{id}/claim", { params: { path: { id: "a" } }, body: { workload: 1 } })`,
  `client.POST("/api/v1/tenants/{id}/claim", { params: { path: {} }, body: { workload: "a" } })`,
  `client.POST("/api/v1/pools", { body: { name: "p", spec: { size: 1 } } })`,
  `client.GET("/api/v1/nothing")`,
];

test("it compiles, and refuses mistakes", async () => {
  const modules = await cachedInstall("openapi-client", {
    files: manifest.map(({ path }) => path),
    async install(folder) {
      for (const { name, path } of manifest) copyFileSync(path, join(folder, name));
      await runCommand("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { folder, limitMs: LIMIT_MS });
    },
  });
  const bin = (name: string) => join(modules, "node_modules", ".bin", name);
  // Modules are found from the folder in which the client lies.
  const folder = mkdtempSync(join(modules, "client-"));
  try {
    const { text } = await testEdge().call("GET /api/v1/openapi.json");
    writeFileSync(join(folder, "openapi.json"), text);
    // By default it takes a field that has a default for one that each request must have.
    const words = ["openapi.json", "--output", "api.d.ts", "--default-non-nullable", "false"];
    await runCommand(bin("openapi-typescript"), words, { folder, limitMs: LIMIT_MS });
    /** What the compiler says of it. */
    const problems = (source: string) => {
      writeFileSync(join(folder, "client.ts"), source);
      const options = ["--strict", "--exactOptionalPropertyTypes", "--noEmit", "--target", "es2022"];
      const words = [...options, "--module", "nodenext", "client.ts"];
      return spawnSync(bin("tsc"), words, { cwd: folder, encoding: "utf8" }).stdout;
    };
    assert.is(problems(good), "");
    const said = problems(`${good}\n${mistakes.map((line, at) => `export const x${at} = ${line};`).join("\n")}`);
    const lines = new Set([...said.matchAll(/^client\.ts\((\d+),\d+\): error TS/gm)].map(([, line]) => line));
    assert.is(lines.size, mistakes.length, said);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
