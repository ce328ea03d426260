import { test } from "uvu";
import * as assert from "uvu/assert";
import { plainSchema } from "../../../crds/schema/schema.ts";
import { workloadSpecSchema } from "../../../crds/workload.ts";
import { diffOf } from "../../../scripts/soak/systematic/end-state.ts";
import { fieldsOf, withField } from "../../../scripts/soak/systematic/spec-values.ts";

test("diffOf: says what one state has more often than the other", () => {
  assert.equal(diffOf(["a", "b", "b"], ["b", "a", "b"]), []);
  assert.equal(diffOf(["a", "b", "b"], ["a", "b", "c", "c"]), ["- b", "+ c (2 times)"]);
});

test("fieldsOf: every field at its limits", () => {
  const fields = new Map(fieldsOf(plainSchema(workloadSpecSchema)).map(({ path, values }) => [path, values]));
  assert.equal(fields.get("network.access"), ["none", "restricted", "unrestricted"]);
  assert.equal(fields.get("resources.vcpus"), [1, 1024]);
  const directories = fields.get("filesystem.overlayDirs") as string[][];
  assert.equal(
    directories.map(({ length }) => length),
    [0, 1, 32],
  );
  assert.is(new Set(directories[2]).size, 32);
  assert.is(directories[1]?.[0]?.length, 1023, "pairs of characters, up to 1024");
});

test("withField: sets a field, and leaves it out without a value", () => {
  const spec = { image: { ref: "a" }, resources: { vcpus: 1 } };
  assert.equal(withField(spec, "health.httpGet.port", 1), { ...spec, health: { httpGet: { port: 1 } } });
  assert.equal(withField(spec, "resources.vcpus", undefined), { image: { ref: "a" }, resources: {} });
});

test.run();
