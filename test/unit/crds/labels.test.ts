// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { API_GROUP, API_VERSION, annotation, finalizer, label } from "../../../crds/labels.ts";
import { isObjectName, isTenantId } from "../../../crds/names.ts";

const LABEL_VALUE = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

test("label: its keys, and that of a binding", () => {
  assert.equal(
    { ...label },
    {
      managed: "tenancy.dev/managed",
      workload: "tenancy.dev/workload",
      tenant: "tenancy.dev/tenant",
      pool: "tenancy.dev/pool",
      poolStatus: "tenancy.dev/pool-status",
      binding: "tenancy.dev/binding",
      build: "tenancy.dev/build",
      prepull: "tenancy.dev/prepull",
    },
  );
  assert.equal([API_GROUP, API_VERSION], ["tenancy.dev", "v1alpha1"]);
});

test("label, annotation, finalizer: legal keys, each used once", () => {
  const keys = [label, annotation, finalizer].flatMap((group) => Object.values<string>(group));
  assert.is(new Set(keys).size, keys.length);
  for (const key of keys) assert.match(key, /^tenancy\.dev\/[a-z][a-z0-9]*(-[a-z]+)*$/);
});

test("isTenantId, isObjectName: whatever they take is a legal label value", () => {
  const text = fc.string({ unit: fc.constantFrom(..."aZ0._-\n é/"), maxLength: 70 });
  fc.assert(
    fc.property(text, (value) => {
      assert.is(isTenantId(value), LABEL_VALUE.test(value));
      if (isObjectName(value)) assert.match(value, LABEL_VALUE);
    }),
    { numRuns: 5000 },
  );
});

test.run();
