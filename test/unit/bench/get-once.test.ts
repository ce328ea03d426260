import { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { getOnce } from "../../../scripts/bench/environment/get-once.ts";

const test = suite<{ worker: Worker; url: string }>("getOnce");

/** Says that it keeps connections, and closes each soon after its answer. */
const server = `
const { createServer } = require("node:http");
const { parentPort } = require("node:worker_threads");
const server = createServer(({ socket, url }, response) => {
  response.writeHead(url === "/ok" ? 200 : 503, { "keep-alive": "timeout=60" }).end("said");
  setTimeout(() => socket.destroy(), 50);
});
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;

test.before(async (context) => {
  context.worker = new Worker(server, { eval: true });
  const port = await new Promise((resolve) => context.worker.once("message", resolve));
  context.url = `http://127.0.0.1:${port}`;
});
test.after(async ({ worker }) => void (await worker.terminate()));

test("is answered by a server that has closed a connection while this process was busy", async ({ url }) => {
  for (let times = 0; times < 3; times += 1) {
    assert.equal(await getOnce(`${url}/ok`, { timeoutMs: 60_000 }), { ok: true, text: "said" });
    await new Promise((resolve) => setTimeout(resolve, 10));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  }
  assert.equal(await getOnce(`${url}/other`, { timeoutMs: 60_000 }), { ok: false, text: "said" });
});

test.run();
