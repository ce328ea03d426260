import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { OPERATOR_FLAGS } from "../../../scripts/start/bundle-programs.ts";

const test = suite("operator image");
const root = join(import.meta.dirname, "..", "..", "..");

test("the image runs the operator with the flags that it has everywhere", () => {
  const file = readFileSync(join(root, "manifests", "images", "operator.Dockerfile"), "utf8");
  const [, entryPoint = ""] = /^ENTRYPOINT (.*)$/m.exec(file) ?? [];
  assert.equal(JSON.parse(entryPoint), ["node", ...OPERATOR_FLAGS, "/app/operator.mjs"]);
});

test.run();
