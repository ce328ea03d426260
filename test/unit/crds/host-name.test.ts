import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { derivedDigits, type HostTarget, hostLabel, readHostLabel } from "../../../crds/host-name.ts";

const test = suite("hostLabel");

const derived = /^at-[a-z0-9-]*--[0-9a-f]{24}$/;

const readable: readonly (readonly [label: string, target: HostTarget])[] = [
  ["hello--alice", { workload: "hello", tenantId: "alice" }],
  ["hello-9000--alice", { workload: "hello", tenantId: "alice", port: 9000 }],
  ["hello--a--b", { workload: "hello", tenantId: "a--b" }],
  ["a-b-1--c-2", { workload: "a-b", tenantId: "c-2", port: 1 }],
  ["80--80", { workload: "80", tenantId: "80" }],
  ["ab--alice", { workload: "ab", tenantId: "alice" }],
];

for (const [label, target] of readable) {
  test(`${label} is readable`, () => {
    assert.is(hostLabel(target), label);
    assert.equal(readHostLabel(label), { kind: "readable", target });
  });
}

const unreadable: Readonly<Record<string, HostTarget>> = {
  "an upper-case id": { workload: "hello", tenantId: "Alice" },
  "an underscore": { workload: "hello", tenantId: "user_1" },
  "a dot": { workload: "hello", tenantId: "a.b" },
  "a dot in the workload": { workload: "a.b", tenantId: "alice" },
  "two hyphens in the workload": { workload: "a--b", tenantId: "c" },
  "a workload that ends like a port": { workload: "web-8080", tenantId: "alice" },
  "what browsers take for punycode": { workload: "xn", tenantId: "alice" },
  "63 letters": { workload: "hello", tenantId: "a".repeat(63) },
  "an id that looks derived": { workload: "hello", tenantId: `x--${"0".repeat(24)}` },
};

for (const [what, target] of Object.entries(unreadable)) {
  test(`${what} gives a derived label`, () => {
    assert.match(hostLabel(target), derived);
    assert.ok(hostLabel(target).length <= 63);
    const digits = derivedDigits(target) as string;
    assert.equal(readHostLabel(hostLabel(target)), { kind: "derived", digits });
    const atPort = hostLabel({ ...target, port: 8080 });
    if (what === "what browsers take for punycode") return;
    assert.match(atPort, new RegExp(`^at8080-[a-z0-9-]*--${digits}$`));
    assert.equal(readHostLabel(atPort), { kind: "derived", digits, port: 8080 });
  });
}

test("an instance whose labels are all readable has no digits", () => {
  for (const [, target] of readable) assert.is(derivedDigits(target), undefined);
  const long = { workload: "a".repeat(30), tenantId: "b".repeat(29) };
  assert.is(hostLabel(long).length, 61);
  assert.is(readHostLabel(hostLabel({ ...long, port: 80 }))?.kind, "derived");
  assert.ok(derivedDigits(long));
});

for (const label of [
  "",
  "hello",
  "--alice",
  "hello--",
  "hello-080--alice",
  "hello-99999--alice",
  "hello-0--alice",
  "xn--alice",
  "a_b--c",
  "-a--b",
  "a".repeat(64),
  `app--${"0".repeat(24)}`,
  `at0-app--${"0".repeat(24)}`,
  `at-${"0".repeat(24)}`,
]) {
  test(`no target has ${JSON.stringify(label)}`, () => assert.is(readHostLabel(label), undefined));
}

const piece = fc.constantFrom(
  "a",
  "b",
  "A",
  "-",
  "--",
  ".",
  "_",
  "1",
  "80",
  "-80",
  "xn",
  "at",
  "0".repeat(24),
  "--".padEnd(26, "a"),
);
const word = fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join("").slice(0, 63));
const target = fc.record(
  { workload: word, tenantId: word, port: fc.constantFrom(1, 80, 8080, 65_535) },
  { requiredKeys: ["workload", "tenantId"] },
);

test("no two targets share a label, and a readable one reads back", () => {
  const property = fc.property(fc.array(target, { minLength: 2, maxLength: 40 }), (targets) => {
    const labels = new Map<string, string>();
    for (const one of targets) {
      const label = hostLabel(one);
      const key = JSON.stringify([one.workload, one.tenantId, one.port]);
      assert.is(labels.get(label) ?? key, key, `${label} is shared`);
      labels.set(label, key);
      const meaning = readHostLabel(label);
      assert.ok(meaning !== undefined, `${label} cannot be read`);
      if (meaning.kind === "readable") assert.equal({ ...meaning.target }, { ...one });
      else {
        assert.is(meaning.digits, derivedDigits(one));
        assert.is(meaning.port, one.port);
      }
    }
  });
  fc.assert(property, { numRuns: 2000 });
});

test("a label has one reading only", () => {
  const text = fc.array(fc.constantFrom("a", "b", "-", "1", "80", "xn"), { minLength: 1, maxLength: 14 });
  const property = fc.property(
    text.map((pieces) => pieces.join("")),
    (label) => {
      const meaning = readHostLabel(label);
      if (meaning?.kind === "readable") assert.is(hostLabel(meaning.target), label);
    },
  );
  fc.assert(property, { numRuns: 5000 });
});

test.run();
