// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import { resolveTenant } from "../../../edge/gateway/events/resolve-tenant.ts";

const test = suite("resolveTenant");

const event = JSON.parse(`{
  "login": "octo", "upper": "Octo_Cat", "number": 42, "zero": 0, "negative": -5, "half": 1.5, "huge": 12345678901234567890, "big": 1e30,
  "empty": "", "dot": ".", "space": "a b", "slash": "a/b", "umlaut": "ä", "flag": true, "nothing": null,
  "long": "${"x".repeat(63)}", "longer": "${"x".repeat(64)}",
  "repository": {"owner": {"login": "acme"}}, "items": [{"id": 7}, {"id": "b"}], "a.b": "dotted", "": {"": "blank"},
  "__proto__": {"polluted": "yes"}, "list": ["x"]
}`) as unknown;

const table: [tenant: TriggerSpec["tenant"], expected: string | RegExp][] = [
  [{ static: "fixed" }, "fixed"],
  [{ static: "fixed", prefix: "ignored-" }, "fixed"],
  [{ from: "login" }, "octo"],
  [{ from: "upper" }, "Octo_Cat"],
  [{ from: "login", prefix: "gh-" }, "gh-octo"],
  [{ from: "number" }, "42"],
  [{ from: "number", prefix: "chat-" }, "chat-42"],
  [{ from: "zero" }, "0"],
  [{ from: "negative", prefix: "chat" }, "chat-5"],
  [{ from: "half" }, "1.5"],
  [{ from: "repository.owner.login" }, "acme"],
  [{ from: "items.0.id" }, "7"],
  [{ from: "items.1.id" }, "b"],
  [{ from: "list.0" }, "x"],
  [{ from: "long" }, "x".repeat(63)],
  [{ from: "__proto__.polluted" }, "yes"],
  [{ from: "negative" }, /is not a valid tenant id/],
  [{ from: "huge" }, /is not a string or an exact integer/],
  [{ from: "big" }, /is not a string or an exact integer/],
  [{ from: "empty" }, /is not a valid tenant id: a tenant id is 1 to 63/],
  [{ from: "empty", prefix: "a-" }, /is not a valid tenant id/],
  [{ from: "dot" }, /is not a valid tenant id/],
  [{ from: "space" }, /is not a valid tenant id/],
  [{ from: "slash" }, /is not a valid tenant id/],
  [{ from: "umlaut" }, /is not a valid tenant id/],
  [{ from: "longer" }, /is not a valid tenant id/],
  [{ from: "long", prefix: "a" }, /is not a valid tenant id/],
  [{ from: "flag" }, /is not a string or an exact integer/],
  [{ from: "nothing" }, /is not a string or an exact integer/],
  [{ from: "repository" }, /is not a string or an exact integer/],
  [{ from: "items" }, /is not a string or an exact integer/],
  [{ from: "items.2.id" }, /has no field items\.2\.id/],
  [{ from: "login.length" }, /has no field/],
  [{ from: "constructor" }, /has no field constructor/],
  [{ from: "repository.__proto__" }, /has no field/],
  [{ from: "repository.toString.name" }, /has no field/],
  [{ from: "missing.deeper" }, /has no field missing\.deeper, which must name its tenant/],
  [{ from: "a.b" }, /has no field a\.b/],
];

for (const [tenant, expected] of table) {
  test(`${JSON.stringify(tenant)} is ${expected}`, () => {
    const resolved = resolveTenant(tenant, event);
    if (typeof expected === "string") assert.equal(resolved, { tenantId: expected });
    else assert.match("problem" in resolved ? resolved.problem : JSON.stringify(resolved), expected);
  });
}

test("an event that is no object has no fields", () => {
  for (const fields of [undefined, null, 7, "text", []]) assert.ok("problem" in resolveTenant({ from: "a" }, fields));
});

test.run();
