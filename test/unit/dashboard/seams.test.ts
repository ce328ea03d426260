import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { OpenApiDocument } from "../../../edge/api/openapi/document.ts";
import { testEdge } from "../edge/test-edge.ts";

const test = suite("dashboard/seams");

const folder = join(import.meta.dirname, "../../../edge/dashboard");
const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && !name.endsWith(".d.ts"))
  .map((name) => ({ name, text: readFileSync(join(folder, name), "utf8") }));

test("the page takes nothing but types from the rest of the project", () => {
  for (const { name, text } of files) {
    for (const [line, from = ""] of text.matchAll(/^(?:import|export)[^;]*? from "(\.[^"]+)";$/gm)) {
      const path = relative(folder, join(folder, name, "..", from));
      if (path.startsWith("..")) assert.match(line, /^import type /, `${name}: ${from}`);
    }
  }
});

test("the page calls nothing but what the API's document has", async () => {
  const { paths } = (await testEdge().call("GET /api/v1/openapi.json")).json as OpenApiDocument;
  const known = new Set(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, "*")}`),
    ),
  );
  const unknown: string[] = [];
  let found = 0;
  for (const { name, text } of files) {
    for (const [, method, path = ""] of text.matchAll(/\((?:\s*)"(GET|POST|PUT|DELETE)",\s*[`"](\/[^`"]*)/g)) {
      found += 1;
      // A name is a whole part of the path; what else is put in is the query.
      const plain = path.replaceAll(/\/\$\{[^}]*\}/g, "/*").replace(/(\$\{|\?).*/, "");
      const call = `${method} /api/v1${plain}`;
      if (!known.has(call)) unknown.push(`${name}: ${call}`);
    }
    for (const [, path] of text.matchAll(/^ {2,}(?:\.\.\.\{ )?path: "(\/\w+)"/gm)) {
      if (name !== "api/kinds.ts") continue;
      found += 1;
      if (!known.has(`GET /api/v1${path}`)) unknown.push(`${name}: ${path}`);
    }
  }
  assert.ok(found > 8, `only ${found} calls found: does the pattern still fit?`);
  assert.equal(unknown, []);
});

test.run();
