import { suite } from "uvu";
import * as assert from "uvu/assert";
import { stringify } from "yaml";
import { readQuotas } from "../../../crds/quotas/tenant-quotas.ts";

const test = suite("quotas of tenants");

function read(content: unknown) {
  return readQuotas({ data: { "quotas.yaml": typeof content === "string" ? content : stringify(content) } });
}

function limitsOf(content: unknown, tenantId: string): object {
  const quotas = read(content);
  if (typeof quotas === "string") throw new Error(quotas);
  return quotas.of(tenantId);
}

const classes = { free: { activeClaims: 1, vcpus: 1 }, team: { activeClaims: 9 } };

for (const [tenantId, expected] of [
  ["acme", { className: "team", limits: { activeClaims: 9 } }],
  ["beta", { className: "free", limits: { activeClaims: 3, vcpus: 1 } }],
  ["alone", { className: undefined, limits: { activeClaims: 0 } }],
  ["team-1", { className: "team", limits: { activeClaims: 9 } }],
  ["team-lab-1", { className: undefined, limits: { vcpus: 64 } }],
  ["team-", { className: "team", limits: { activeClaims: 9 } }],
  ["team", { className: "free", limits: { activeClaims: 1, vcpus: 1 } }],
  ["constructor", { className: "free", limits: { activeClaims: 1, vcpus: 1 } }],
] as const) {
  test(`tenant ${tenantId} gets the limits of its id, of the longest start, or of the default class`, () => {
    const tenants = {
      acme: "team",
      beta: { class: "free", activeClaims: 3 },
      alone: { activeClaims: 0 },
      "team-*": "team",
      "team-lab-*": { vcpus: 64 },
    };
    assert.equal(limitsOf({ classes, default: "free", tenants }, tenantId), expected);
  });
}

test("without a ConfigMap, and with an empty entry, there are no limits", () => {
  for (const quotas of [readQuotas(undefined), read("")]) {
    if (typeof quotas === "string") throw new Error(quotas);
    assert.equal(quotas.of("acme").limits, {});
  }
});

for (const [content, problem] of [
  ["a: [", /^quotas\.yaml: must be YAML: .*at line 1/],
  ["[]", /^quotas\.yaml: must be a mapping$/],
  ["a: &a 1\nb: *a", /^quotas\.yaml: must be YAML: /],
  [{ limits: {} }, /^quotas\.yaml\.limits: is unknown$/],
  [{ classes: { free: { claims: 1 } } }, /^quotas\.yaml\.classes\.free\.claims: is unknown$/],
  [{ classes: { free: { activeClaims: "3" } } }, /^quotas\.yaml\.classes\.free\.activeClaims: must be a number$/],
  [{ classes: { free: { vcpus: 0.5 } } }, /^quotas\.yaml\.classes\.free\.vcpus: must be a whole number$/],
  [{ default: "free" }, /^quotas\.yaml: class free does not exist: add it to classes$/],
  [{ tenants: { acme: "constructor" } }, /^quotas\.yaml: class constructor does not exist/],
  [{ tenants: { "*": "free" } }, /^quotas\.yaml\.tenants\.\*: must be a tenant id, or the start of one and a \*$/],
  [{ tenants: { acme: 3 } }, /^quotas\.yaml\.tenants\.acme: must be the name of a class, or limits$/],
] as const) {
  test(`${JSON.stringify(content)} is refused with what is wrong`, () => {
    assert.match(String(read(content)), problem);
  });
}

test("a ConfigMap with another entry is refused", () => {
  assert.is(readQuotas({ data: { quotas: "" } }), "its data must have one entry, quotas.yaml");
  assert.is(readQuotas({ data: { "quotas.yaml": "", more: "" } }), "its data must have one entry, quotas.yaml");
});

test.run();
