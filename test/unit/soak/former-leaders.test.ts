import { test } from "uvu";
import * as assert from "uvu/assert";
import { writesOfFormerLeaders } from "../../../scripts/soak/failover/audit.ts";
import { faultsOf } from "../../../scripts/soak/failover/options.ts";

const event = (second: number, username: string, resource: string, code = 200) =>
  JSON.stringify({
    ...{ verb: "patch", user: { username }, objectRef: { resource, name: "x" }, responseStatus: { code } },
    requestReceivedTimestamp: `2026-01-01T00:00:0${second}.000000Z`,
  });

test("writesOfFormerLeaders: what is written after another has taken the lease, and was not refused", () => {
  const log = [
    event(1, "one", "leases"),
    event(2, "one", "pods"),
    event(4, "two", "leases"),
    event(3, "one", "tenancyclaims"),
    event(5, "one", "pods", 409),
    event(5, "somebody", "pods"),
    event(6, "two", "pods"),
  ];
  assert.equal(writesOfFormerLeaders(`${log.join("\n")}\n`, ["one", "two"]), []);
  const late = [...log, event(7, "one", "tenancyclaims")].join("\n");
  assert.equal(writesOfFormerLeaders(late, ["one", "two"]), [
    "2026-01-01T00:00:07.000000Z one: patch tenancyclaims x, led by two",
  ]);
});

test("faultsOf: leaders are lost in turns, edges in between, the API server in the end", () => {
  assert.equal(faultsOf(6), ["kill", "suspend", "cut", "kill", "suspend", "edge", "cut", "api-server"]);
});

test.run();
