// @own-cluster
// The client of edge/client in a page, with the browser's own fetch, streams and WebSocket.
import { join } from "node:path";
import { build } from "esbuild";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openPage, UNAUTHORIZED } from "./browser.ts";
import { INSTANCE, type InsideStage, startInsideStage } from "./inside-stage.ts";
import { KEY } from "./stage.ts";

const test = suite("browser/client");
let stage: InsideStage;

test.before(async () => {
  stage = await startInsideStage({ apiKey: KEY });
});
test.after(() => stage?.stop());

/** What a page does with the client. */
const use = `(async ({ key, instance, folder }) => {
  const client = createClient({ url: location.origin, key });
  const { stdout } = await client.run(instance, ["/bin/echo", "run"]);
  await client.files.write(instance, folder + "/blob", new Blob(["written"]));
  const read = await client.files.readText(instance, folder + "/blob");
  const process = await client.processes.start(instance, ["/bin/cat"]);
  await process.write("attached");
  await process.end();
  const attached = await new Response(process.stdout).text();
  const { exitCode } = await process.exited;
  const { status } = await client.files.stat(instance, folder + "/none").catch((error) => error);
  const wrong = createClient({ url: location.origin, key: "wrong" });
  const { status: refused } = await wrong.processes.terminal(instance).catch((error) => error);
  return [stdout, read, attached, exitCode, status, refused];
})`;

test("it runs a command, moves a file, streams, and reports errors with the API's words", async () => {
  const { outputFiles } = await build({
    stdin: {
      contents: 'import { createClient } from "./edge/client/index.ts"; globalThis.createClient = createClient;',
      resolveDir: join(import.meta.dirname, "../.."),
    },
    ...{ bundle: true, format: "iife", platform: "browser", write: false, logLevel: "silent" },
  });
  const { page, expect, close } = await openPage(stage.browser);
  expect(UNAUTHORIZED);
  expect(/status of 404|WebSocket connection to/);
  await page.goto(`${stage.url}/api/v1/health`);
  await page.evaluate(outputFiles[0]?.text ?? "");
  const given = JSON.stringify({ key: KEY, instance: INSTANCE, folder: stage.folder });
  assert.equal(await page.evaluate(`${use}(${given})`), ["run\n", "written", "attached", 0, 404, 401]);
  await close();
});

test.run();
