import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operationTypes } from "../../../scripts/client/operation-types.ts";
import { testEdge } from "../edge/test-edge.ts";

const test = suite("types of the client");

test("edge/client/operations.ts is what npm run client makes of the routes of an edge", async () => {
  const { json } = await testEdge({ apiKey: "k" }).call("GET /api/v1/openapi.json", {
    headers: { authorization: "Bearer k" },
  });
  const path = join(import.meta.dirname, "../../../edge/client/operations.ts");
  assert.ok(
    readFileSync(path, "utf8") === operationTypes(json as Parameters<typeof operationTypes>[0]),
    "run npm run client",
  );
});

test.run();
