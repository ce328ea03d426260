// @runtimes bun node deno

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { rootCaller } from "../../../edge/access/actor.ts";
import { adminsOnly } from "../../../edge/access/authorize.ts";
import { createRouter } from "../../../edge/http/router.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("createRouter");

const routes = ["/", "/ws"].map(
  (path) => ({ method: "GET", path, query: "any", handle: () => new Response(path) }) as const,
);

test("an address whose path is the root's alone, as one with a fragment, finds no other route the next time", async () => {
  const route = createRouter(routes, { authenticate: () => rootCaller, authorize: adminsOnly });
  const found = async (url: string) => (await route({ method: "GET", url } as Request, {})).text();
  for (const origin of ["http://a#", "http://a?", "http://a"]) {
    const expected = origin === "http://a" ? "/ws" : "/";
    assert.equal([await found(`${origin}/`), await found(`${origin}/ws`)], ["/", expected], origin);
  }
});

test("a path with a slash at its end is another path than without it: no list answers for an empty name", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  for (const path of ["workloads", "workloads/app", "instances", "claims", "tenants", "health"]) {
    for (const end of ["/", "//", "/?a=b"]) {
      const target = `/api/v1/${path}${end}`;
      const { status, error } = await edge.call(`GET ${target}`);
      assert.is(status, 404, target);
      assert.match(error ?? "", `there is no route GET "/api/v1/${path}/`);
    }
  }
  assert.is((await edge.call("DELETE /api/v1/workloads/")).status, 404);
  assert.is((await edge.call("GET /api/v1/workloads/app")).status, 200);
});

test.run();
