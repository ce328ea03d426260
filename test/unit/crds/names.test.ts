// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import {
  claimName,
  hashedClaimName,
  instanceName,
  isObjectName,
  isTenantId,
  nameSuffix,
  policyName,
  poolInstanceName,
} from "../../../crds/names.ts";
import { anyCharacter } from "../any-character.ts";

interface Pair {
  tenantId: string;
  workloadRef: string;
}

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const TENANT_LETTERS = "abzABZ019._-";
const runs = { numRuns: 1000 };

function text(letters: string, maxLength: number): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom(...letters), minLength: 1, maxLength });
}

// Short words of few letters, so that different pairs often derive the same name.
const tenantId = fc.oneof(text("aAb-", 5), text(TENANT_LETTERS, 63)).filter(isTenantId);
const workloadRef = fc
  .oneof(
    text("ab-", 5),
    text("abz019.-", 63),
    text("ab-", 3).map((word) => `${word}--0a1b2c3d`),
  )
  .filter(isObjectName);
const pair: fc.Arbitrary<Pair> = fc.record({ tenantId, workloadRef });
// The same few words cut at another place: claim-a-b-c.
const cutPair: fc.Arbitrary<Pair> = fc
  .tuple(fc.array(fc.constantFrom("a", "b"), { minLength: 2, maxLength: 4 }), fc.nat({ max: 2 }))
  .map(([words, cut]) => ({
    tenantId: words.slice(0, (cut % (words.length - 1)) + 1).join("-"),
    workloadRef: words.slice((cut % (words.length - 1)) + 1).join("-"),
  }));
const suffix = text("bcdf2456", 8);

test("isTenantId: takes every label value and nothing else", () => {
  for (const legal of ["a", "A", "0", "alice", "Alice_B.c-d", "x".repeat(63)]) assert.ok(isTenantId(legal), legal);
  const illegal = ["", ".", "..", "-a", "a-", "_a", "a_", "a b", "a/b", "a\n", "é", "x".repeat(64), 7, null, undefined];
  for (const value of illegal) assert.not.ok(isTenantId(value), String(value));
});

test("isObjectName: takes DNS-1123 subdomains of at most 63 characters", () => {
  for (const legal of ["a", "desktop", "py3.11", "a-b", "x".repeat(63)]) assert.ok(isObjectName(legal), legal);
  for (const illegal of ["", "A", "a_b", "-a", "a-", "a..b", "a.", ".a", "a\n", "x".repeat(64), 7, null]) {
    assert.not.ok(isObjectName(illegal), String(illegal));
  }
});

test("claimName, hashedClaimName: legal and stable for every pair", () => {
  fc.assert(
    fc.property(pair, (claim) => {
      for (const name of [claimName(claim), hashedClaimName(claim)]) assert.ok(isObjectName(name), name);
      assert.is(claimName(claim), claimName({ ...claim }));
    }),
    runs,
  );
});

test("instanceName, poolInstanceName, policyName: legal host names that keep their suffix", () => {
  fc.assert(
    fc.property(pair, suffix, ({ tenantId, workloadRef: workload }, suffix) => {
      for (const name of [instanceName({ tenantId, workload, suffix }), poolInstanceName({ workload, suffix })]) {
        assert.ok(name.length <= 63 && LABEL.test(name) && name.endsWith(`-${suffix}`), name);
      }
      assert.ok(LABEL.test(policyName(workload)) && policyName(workload).length <= 63, policyName(workload));
    }),
    runs,
  );
});

test("names: any text at all gives a legal name", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), fc.string({ unit: anyCharacter }), (tenantId, workload) => {
      assert.ok(isObjectName(claimName({ tenantId, workloadRef: workload })));
      assert.match(instanceName({ tenantId, workload, suffix: "x7" }), LABEL);
      assert.match(policyName(workload), LABEL);
    }),
    runs,
  );
});

test("claimName: keeps the spec's form wherever that is a legal name", () => {
  assert.is(claimName({ tenantId: "alice", workloadRef: "desktop" }), "claim-alice-desktop");
  assert.is(claimName({ tenantId: "alice.smith", workloadRef: "py3.11" }), "claim-alice.smith-py3.11");
  assert.is(claimName({ tenantId: "a", workloadRef: "report-20240101" }), "claim-a-report-20240101");
  fc.assert(
    fc.property(pair, (claim) => {
      const readable = `claim-${claim.tenantId}-${claim.workloadRef}`;
      fc.pre(isObjectName(readable) && isObjectName(claim.tenantId) && !/--[0-9a-f]{8}$/.test(readable));
      assert.is(claimName(claim), readable);
    }),
    runs,
  );
});

test("instanceName, poolInstanceName: keep the spec's form", () => {
  const pod = { tenantId: "alice", workload: "desktop", suffix: "x7k2p" };
  assert.is(instanceName(pod), "inst-alice-desktop-x7k2p");
  assert.is(poolInstanceName(pod), "inst-pool-desktop-x7k2p");
});

test("instanceName: never begins as the names of pods that are born in a pool, whatever the tenant is called", () => {
  const suffix = "x7k2p";
  assert.is(instanceName({ tenantId: "pool", workload: "desktop", suffix }), "inst-tenant-pool-desktop-x7k2p");
  for (const tenantId of ["pool", "pool-a", "Pool", "pool.a", `pool-${"x".repeat(58)}`]) {
    const name = instanceName({ tenantId, workload: "desktop", suffix });
    assert.not.match(name, /^inst-pool-/);
    assert.ok(name.length <= 63 && LABEL.test(name), name);
  }
  assert.is(instanceName({ tenantId: "pooled", workload: "desktop", suffix }), "inst-pooled-desktop-x7k2p");
  assert.match(poolInstanceName({ workload: "W_".repeat(31), suffix }), /^inst-pool-/);
});

test("claimName: tenants that differ in case only get different names", () => {
  const names = ["alice", "Alice", "ALICE"].map((tenantId) => claimName({ tenantId, workloadRef: "w" }));
  assert.is(new Set(names).size, 3);
  assert.match(names[1] ?? "", /^claim-alice-w--[0-9a-f]{8}$/);
});

test("hashedClaimName: never equals the readable name of any pair", () => {
  fc.assert(
    fc.property(pair, pair, (one, other) => {
      fc.pre(claimName(other) !== hashedClaimName(other));
      assert.is.not(hashedClaimName(one), claimName(other));
    }),
    runs,
  );
});

test("hashedClaimName: a workload that is named like a hashed name gets a name of its own", () => {
  const victim = { tenantId: "Bob", workloadRef: "w" };
  const hash = hashedClaimName(victim).slice(-8);
  const look = { tenantId: "bob", workloadRef: `w--${hash}` };
  assert.is.not(claimName(look), claimName(victim));
});

test("claim names: two pairs never share one when callers compare and fall back to the hashed form", () => {
  let shared = 0;
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.oneof(pair, cutPair), {
        selector: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
      }),
      (all) => {
        const taken = new Map<string, Pair>();
        for (const claim of all) {
          const first = claimName(claim);
          const name = taken.has(first) ? hashedClaimName(claim) : first;
          if (name !== first) shared++;
          assert.not.ok(taken.has(name), name);
          taken.set(name, claim);
        }
      },
    ),
    runs,
  );
  assert.ok(shared > 0, "the pairs never derived the same readable name, so this test showed nothing");
});

test("claimName: (a, b-c) and (a-b, c) derive one name and differ once hashed", () => {
  const one = { tenantId: "a", workloadRef: "b-c" };
  const other = { tenantId: "a-b", workloadRef: "c" };
  assert.is(claimName(one), claimName(other));
  assert.is.not(hashedClaimName(one), hashedClaimName(other));
});

test("nameSuffix: follows from its seeds, and no two of many are the same", () => {
  assert.is(nameSuffix("uid", 1), nameSuffix("uid", 1));
  const suffixes = Array.from({ length: 2000 }, (_, index) => nameSuffix("6f1c", index));
  assert.is(new Set(suffixes).size, suffixes.length);
  for (const suffix of suffixes) assert.match(suffix, /^[b-z2-9]{6}$/);
  assert.is.not(nameSuffix("a", "b,c"), nameSuffix("a,b", "c"));
});

test("instanceName: refuses a suffix that would not be legal or unbounded", () => {
  for (const suffix of ["", "A", "a-b", "a.b", "x".repeat(17)]) {
    assert.throws(() => instanceName({ tenantId: "a", workload: "w", suffix }), /Cannot derive a name: suffix/);
  }
});

test.run();
