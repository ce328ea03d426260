// @runtimes node
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Secret, Template, Volume } from "e2b";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { serveNode } from "../../../edge/serve/node.ts";
import { methodRows } from "../../e2b-methods.ts";
import { errorOf } from "../../error-of.ts";
import { testEdge } from "../edge/test-edge.ts";
import { silentLog } from "../silent-log.ts";

const types = readFileSync(join(import.meta.dirname, "../../../node_modules/e2b/dist/index.d.ts"), "utf8");

/** What the page describes in words. */
const otherMethods: Record<string, readonly string[]> = {
  Sandbox: ["getMcpUrl", "getMcpToken"],
  Template: ["toJSON"],
  Secret: ["fill", "iamToken"],
  Volume: ["makeDir", "exists", "updateMetadata", "readFile", "writeFile", "remove"],
};
/** Those that ask no server by themselves, and errors. */
const otherClasses =
  /^(?:Git|ApiClient|(?:Volume)?ConnectionConfig|E2B|LogEntry\w*|ReadyCmd|TemplateBase|SecretPaginator|\w+Error)$/;

/** The public methods that the package declares for its users, with those of the class above. */
function declaredMethods(name: string): Set<string> {
  const [, above, body = ""] =
    new RegExp(String.raw`^declare class ${name}\b(?: extends (\w+))?[^\n]*\{\n([\s\S]*?)^\}`, "m").exec(types) ?? [];
  const methods = above === undefined ? new Set<string>() : declaredMethods(above);
  for (const [, modifiers = "", method = ""] of body.matchAll(/^ {2}((?:[a-z]+ )*)([A-Za-z]\w*)[<(]/gm))
    if (!/\b(?:private|protected|get|set)\b/.test(modifiers) && method !== "constructor") methods.add(method);
  return methods;
}

/** Of `Template`, those that may ask the server: the others describe a template. */
function declaredOfTemplate(): Set<string> {
  const mayAsk = (method: string) => new RegExp(String.raw`^ {2}static ${method}\([^\n]*Promise<`, "m").test(types);
  return new Set([...declaredMethods("TemplateBase")].filter(mayAsk));
}

const test = suite("docs/reference/e2b.md");

test("each public class and method of the SDK for JavaScript has its place", () => {
  const rows = methodRows();
  const [exported = ""] = /^export \{[^}]*\};$/m.exec(types) ?? [];
  const isClass = (name: string) => new RegExp(String.raw`^declare class ${name}\b`, "m").test(types);
  const names = [...exported.matchAll(/\w+/g)].map(([name]) => name).filter(isClass);
  assert.ok(names.length > 0);
  assert.equal(
    names.filter((name) => !rows.has(name) && !otherClasses.test(name)),
    [],
  );
  for (const [name, { works, refused }] of rows) {
    const declared = name === "Template" ? declaredOfTemplate() : declaredMethods(name);
    assert.equal([...declared].sort(), [...works, ...refused, ...(otherMethods[name] ?? [])].sort(), name);
  }
});

test("what the page says is not done fails with 501, by the SDK itself", async () => {
  const apiKey = "the-root-key";
  const edge = testEdge({ apiKey });
  edge.cluster.addWorkload("app");
  const listen = { hostname: "127.0.0.1", port: 0 };
  const server = await serveNode({ handler: edge.handler, listen, log: silentLog });
  const options = { apiKey, apiUrl: `${server.url}/e2b`, sandboxUrl: server.url };
  const sandbox = new Sandbox({ sandboxId: "app--a", envdVersion: "0.6.1", ...options });
  const template = Template().fromImage("debian:12");
  const build = { templateId: "app", buildId: "b" };
  const calls: Record<string, () => Promise<unknown>> = {
    "Sandbox.updateNetwork": () => sandbox.updateNetwork({ allowInternetAccess: false }),
    "Template.build": () => Template.build(template, "app", options),
    "Template.buildInBackground": () => Template.buildInBackground(template, "app", options),
    "Template.getBuildStatus": () => Template.getBuildStatus(build, options),
    "Template.assignTags": () => Template.assignTags("app:v1", "v2", options),
    "Template.removeTags": () => Template.removeTags("app", "v2", options),
    "Template.getTags": () => Template.getTags("app", options),
    "Volume.create": () => Volume.create("v", options),
    "Volume.connect": () => Volume.connect("v", options),
    "Volume.list": () => Volume.list(options),
    "Volume.getInfo": () => Volume.getInfo("v", options),
    "Volume.destroy": () => Volume.destroy("v", options),
    "Secret.create": () => Secret.create("s", "text", options),
    "Secret.update": () => Secret.update("s", "text", options),
    "Secret.list": () => Secret.list(options).nextItems(),
    "Secret.getInfo": () => Secret.getInfo("s", options),
    "Secret.exists": () => Secret.exists("s", options),
    "Secret.destroy": () => Secret.destroy("s", options),
  };
  try {
    const named = [...methodRows()].flatMap(([name, { refused }]) => refused.map((method) => `${name}.${method}`));
    assert.equal(Object.keys(calls).sort(), named.sort());
    for (const [name, call] of Object.entries(calls)) {
      assert.match(String(await errorOf(call())), /501: .* is not implemented by tenancy: /, name);
    }
  } finally {
    await server.stop({ graceMs: 0 });
  }
});

test.run();
