import { suite } from "uvu";
import * as assert from "uvu/assert";
import { stringify } from "yaml";
import type { Change } from "../../../crds/client/watch/informer.ts";
import type { ConfigMap } from "../../../crds/kubernetes.ts";
import { type CurrentQuotas, followQuotas } from "../../../crds/quotas/follow-quotas.ts";
import { resourcesOf } from "../../../crds/quotas/room.ts";
import { readQuotas, type TenantQuota } from "../../../crds/quotas/tenant-quotas.ts";
import { silentLog } from "../silent-log.ts";

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

test("ids stay as they are written, and none is lost", () => {
  const text =
    "tenants: {0042: {vcpus: 1}, 1e3: {vcpus: 2}, 1.10: {vcpus: 3}, constructor: {vcpus: 4}, null: {vcpus: 5}}";
  const vcpus = ["0042", "42", "1e3", "1000", "1.10", "1.1", "constructor", "null"].map(
    (id) => (limitsOf(text, id) as TenantQuota).limits.vcpus,
  );
  assert.equal(vcpus, [1, undefined, 2, undefined, 3, undefined, 4, 5]);
});

test("as many tenants as a ConfigMap can name are read", () => {
  const lines = Array.from({ length: 20_000 }, (_, at) => `  tenant-${at}-of-a-platform: { vcpus: ${at} }`);
  assert.equal(limitsOf(["tenants:", ...lines].join("\n"), "tenant-19999-of-a-platform"), {
    className: undefined,
    limits: { vcpus: 19_999 },
  });
});

test("a mistake leaves the quotas before it, also where the ConfigMap is replaced", async () => {
  const follow = (): {
    change: (type: "added" | "modified" | "deleted", text?: string) => void;
    quotas: CurrentQuotas;
  } => {
    let handler: (change: Change<ConfigMap>) => void = () => undefined;
    const informer = {
      synced: Promise.resolve(),
      subscribe(given: typeof handler) {
        handler = given;
        return () => undefined;
      },
    };
    const quotas = followQuotas(informer, { namespace: "n", log: silentLog });
    return {
      quotas,
      change: (type, text = "") =>
        handler({ type, object: { metadata: { name: "tenancy-quotas" }, data: { "quotas.yaml": text } } }),
    };
  };
  const limits = ({ quotas }: ReturnType<typeof follow>) => quotas.current()?.of("a").limits;
  const first = follow();
  await Promise.resolve();
  first.change("added", "mistake: 1");
  assert.equal([limits(first), first.quotas.problem()?.slice(0, 25)], [{}, "quotas.yaml.mistake: is u"]);
  first.change("modified", "tenants: {a: {vcpus: 1}}");
  first.change("modified", "mistake: 1");
  assert.equal(limits(first), { vcpus: 1 });
  first.change("deleted");
  assert.equal([limits(first), first.quotas.problem()], [{}, undefined]);
  first.change("added", "mistake: 1");
  assert.equal(limits(first), { vcpus: 1 });
  const atStart = follow();
  atStart.change("added", "mistake: 1");
  assert.is(limits(atStart), undefined);
});

test("without a ConfigMap, and with an empty entry, there are no limits", () => {
  for (const quotas of [readQuotas(undefined), read("")]) {
    if (typeof quotas === "string") throw new Error(quotas);
    assert.equal(quotas.of("acme").limits, {});
  }
});

for (const [content, problem] of [
  ["a: [", /^quotas\.yaml: must be YAML: .*at line 1/],
  ["[]", /^quotas\.yaml: must be a mapping$/],
  ["classes: &a {}\ntenants: *a", /^quotas\.yaml\.tenants: must be a mapping$/],
  ["tenants:\n  a: {vcpus: 1}\n  a: {vcpus: 2}", /^quotas\.yaml\.tenants\.a: is there twice$/],
  ["tenants:\n  ? [a]\n  : {}", /^quotas\.yaml\.tenants: must be a word or a number$/],
  [{ limits: {} }, /^quotas\.yaml\.limits: is unknown; known are classes, default, tenants$/],
  [{ classes: { free: { claims: 1 } } }, /^quotas\.yaml\.classes\.free\.claims: is unknown; known are activeClaims, /],
  [
    { classes: { free: { vcpus: 0.5 } } },
    /^quotas\.yaml\.classes\.free\.vcpus: must be a whole number from 0 .*"0\.5"$/,
  ],
  [{ classes: { free: { vcpus: "0x10" } } }, /^quotas\.yaml\.classes\.free\.vcpus: must be a whole number/],
  [{ classes: { free: { vcpus: [] } } }, /^quotas\.yaml\.classes\.free\.vcpus: must be a word or a number$/],
  [{ default: "free" }, /^quotas\.yaml\.default: class "free" does not exist: add it to classes$/],
  [{ tenants: { acme: "constructor" } }, /^quotas\.yaml\.tenants\.acme: class "constructor" does not exist/],
  [{ tenants: { acme: { class: "x" } } }, /^quotas\.yaml\.tenants\.acme\.class: class "x" does not exist/],
  [{ tenants: { "*": "free" } }, /^quotas\.yaml\.tenants\.\*: must be a tenant id, or the start of one and a \*$/],
] as const) {
  test(`${JSON.stringify(content)} is refused with what is wrong`, () => {
    assert.match(String(read(content)), problem);
  });
}

test("a ConfigMap with another entry is refused", () => {
  assert.is(readQuotas({ data: { quotas: "" } }), "its data must have one entry, quotas.yaml");
  assert.is(readQuotas({ data: { "quotas.yaml": "", more: "" } }), "its data must have one entry, quotas.yaml");
});

test("what a pod may use is its limit of CPU, in each way that the API server writes it", () => {
  const vcpusOf = (cpu: string) => {
    const resources = { limits: { cpu, memory: "64Mi" }, requests: { cpu: "1m", memory: "1Mi" } };
    return resourcesOf({ spec: { containers: [{ name: "workload", image: "i", resources }] } })?.vcpus;
  };
  assert.equal(["2", "250m", "1500m", "1k", "0.5x", ""].map(vcpusOf), [2, 0.25, 1.5, 1000, undefined, undefined]);
});

test.run();
