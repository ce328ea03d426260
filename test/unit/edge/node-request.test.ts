// @runtimes node
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { jsonResponse } from "../../../edge/http/response.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import { eventually } from "../../eventually.ts";
import { silentLog } from "../silent-log.ts";
import { openWire } from "./open-wire.ts";

const test = suite("NodeRequest");

for (const when of ["while it is read", "before it is read"]) {
  test(`a body that breaks off ${when} is an error to its reader`, async () => {
    let outcome: string | undefined;
    let isTaken = false;
    const server = await serveNode({
      listen: { hostname: "127.0.0.1", port: 0 },
      log: silentLog,
      async handler(request) {
        const gone = new Promise((resolve) => request.signal.addEventListener("abort", resolve));
        isTaken = true;
        if (when === "before it is read") await gone;
        outcome = await request.arrayBuffer().then(
          () => "whole",
          () => "broken off",
        );
        return jsonResponse({});
      },
    });
    const wire = openWire(server.url, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{");
    await eventually(() => isTaken);
    wire.socket.destroy();
    await eventually(() => outcome !== undefined);
    assert.is(outcome, "broken off");
    await server.stop({ graceMs: 0 });
  });
}

test("a body that is read a second time is an error, as a Request's is", async () => {
  const server = await serveNode({
    listen: { hostname: "127.0.0.1", port: 0 },
    log: silentLog,
    async handler(request) {
      const first = await request.text();
      const second = await request.text().catch((error: Error) => error.name);
      return jsonResponse({ first, second });
    },
  });
  const response = await fetch(server.url, { method: "POST", body: "once", signal: AbortSignal.timeout(10_000) });
  assert.equal(await response.json(), { first: "once", second: "TypeError" });
  await server.stop({ graceMs: 0 });
});

test.run();
