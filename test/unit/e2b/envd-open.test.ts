import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { root } from "../../../edge/access/actor.ts";
import { testEdge } from "../edge/test-edge.ts";

const test = suite("envd without a key of the server");
const SANDBOX = { tenantId: "a", workloadRef: "app" };

test("a page of another site writes nothing, though it can make every token and signature", async () => {
  const edge = testEdge();
  const token = await edge.accessTokens.sign(SANDBOX, root);
  const signature = `v1_${createHash("sha256").update(`/x:write::${token}`).digest("base64").replace(/=+$/, "")}`;
  const target = `POST /files?${new URLSearchParams({ path: "/x", signature })}`;
  const id = { "e2b-sandbox-id": "app--a" };
  const page = { ...id, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
  for (const headers of [page, { ...page, "x-access-token": token }, { ...page, "x-api-key": "any" }]) {
    assert.is((await edge.call(target, { body: "x", headers })).status, 403);
  }
  // Programs need no key. There is no such sandbox.
  for (const headers of [id, { ...id, "x-access-token": token }, { ...id, "x-api-key": "any" }])
    assert.is((await edge.call(target, { body: "x", headers })).status, 502);
  assert.is((await edge.call(target, { body: "x", headers: { ...id, "x-access-token": "a.b" } })).status, 401);
});

test.run();
