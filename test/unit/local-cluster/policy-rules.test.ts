import { test } from "uvu";
import * as assert from "uvu/assert";
import { policyChain, renderRules } from "../../../scripts/cluster/policies/host-rules.ts";
import { SLOTS, slotOf } from "../../../scripts/cluster/slot.ts";

test("renderRules queues what pods begin, and drops it where nobody takes from the queue", () => {
  const { v4 } = renderRules(slotOf(7));
  assert.match(v4, /^-A tenancy7-policies -j NFQUEUE --queue-num 20070$/m);
  assert.not.match(v4, /bypass/);
  for (const entry of ["FORWARD -i tenancy7", "FORWARD ! -i tenancy7 -o tenancy7", "INPUT -i tenancy7"])
    assert.ok(v4.includes(`-I ${entry} -j tenancy7-policies\n`), entry);
});

test("renderRules has no rule for what the machine itself sends", () => {
  for (const rules of Object.values(renderRules(slotOf(7)))) assert.not.match(rules, /OUTPUT|POSTROUTING|PREROUTING/);
});

test("renderRules lets nothing of IPv6 through, and does not care about a FORWARD policy between pods", () => {
  const { v4, v6 } = renderRules(slotOf(7));
  assert.match(v6, /^:tenancy7-policies - \[0:0\]\n-A tenancy7-policies -j DROP$/m);
  assert.match(v4, /\*filter\n.*\n-A tenancy7-policies -j ACCEPT\n-I FORWARD -i tenancy7 -o tenancy7 -j/);
});

test("policyChain is no name of another slot's, and no longer than iptables takes", () => {
  const names = Array.from({ length: SLOTS }, (_, number) => policyChain(slotOf(number)));
  assert.is(new Set(names).size, SLOTS);
  assert.ok(names.every((name) => name.length <= 28));
});

test.run();
