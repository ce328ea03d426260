// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRouter } from "../../../edge/http/router.ts";

const test = suite("createRouter");

const routes = ["/", "/ws"].map(
  (path) => ({ method: "GET", path, query: "any", handle: () => new Response(path) }) as const,
);

test("an address whose path is the root's alone, as one with a fragment, finds no other route the next time", async () => {
  const route = createRouter(routes, { authenticate: () => undefined });
  const found = async (url: string) => (await route({ method: "GET", url } as Request, {})).text();
  for (const origin of ["http://a#", "http://a?", "http://a"]) {
    const expected = origin === "http://a" ? "/ws" : "/";
    assert.equal([await found(`${origin}/`), await found(`${origin}/ws`)], ["/", expected], origin);
  }
});

test.run();
