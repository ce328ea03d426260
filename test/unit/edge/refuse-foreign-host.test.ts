// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { healthRoute } from "../../../edge/api/system.ts";
import { createHandler } from "../../../edge/http/handler.ts";
import { createPageCheck } from "../../../edge/http/page-check.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("refuseForeignHost");
const routes = [healthRoute, { ...healthRoute, path: "/guarded", public: false }];

async function statusOf(host: string, options: { localOnly: boolean }): Promise<number> {
  const handler = createHandler({
    routes,
    log: silentLog,
    instance: "t",
    checkPage: createPageCheck({ ...options, origins: new Set() }),
  });
  const request = { method: "GET", url: "http://127.0.0.1/guarded", headers: new Headers({ host }) } as Request;
  return (await handler(request)).status;
}

for (const [host, status] of [
  ["127.0.0.1:8080", 200],
  ["localhost", 200],
  ["LOCALHOST:80", 200],
  ["[::1]:8080", 200],
  ["evil.example", 403],
  ["evil.example:8080", 403],
  ["127.0.0.1.evil.example", 403],
  ["192.0.2.1:8080", 403],
] as const) {
  test(`Host ${host} is answered with ${status} where only this machine is served`, async () => {
    assert.is(await statusOf(host, { localOnly: true }), status);
  });
}

test("any Host is answered where everyone is", async () => {
  assert.is(await statusOf("evil.example", { localOnly: false }), 200);
});

test.run();
