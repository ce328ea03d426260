import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { countRequests, createLogReader, requestsPerClaim } from "../../../scripts/bench/audit-log.ts";

const operator = "tenancy-operator/dev";
const edge = "tenancy-edge/dev";

function line(userAgent: string, verb: string, objectRef: object, stage = "ResponseComplete"): string {
  return JSON.stringify({ kind: "Event", stage, verb, userAgent, objectRef });
}

const claims = { resource: "tenancyclaims", namespace: "tenancy", name: "claim-a-w", apiGroup: "tenancy.dev" };
const pod = (name: string) => ({ resource: "pods", namespace: "tenancy", name });

const poolClaim = [
  line(edge, "create", claims),
  line(operator, "patch", pod("given")),
  line(operator, "patch", { ...claims, subresource: "status" }),
];
const refill = [
  line(operator, "create", pod("new")),
  line(operator, "patch", pod("new")),
  line(operator, "patch", { resource: "tenancypools", subresource: "status", name: "p" }),
];
const others = [
  line("kubelet/v1.34", "patch", { ...pod("given"), subresource: "status" }),
  line("tenancy-bench/dev", "list", { resource: "pods" }),
  line(operator, "update", { resource: "leases", name: "tenancy-operator" }),
  line(operator, "watch", { resource: "pods" }),
  line(edge, "create", claims, "RequestReceived"),
  JSON.stringify({ stage: "ResponseComplete", verb: "get", userAgent: operator, requestURI: "/readyz" }),
];

test("countRequests: a pool claim is three writes, and what refills the pool is told apart", () => {
  const counts = countRequests([...poolClaim, ...refill, ...others, ""].join("\n"), new Set(["given"]));
  assert.equal(
    counts.map(({ client, verb, resource, refill: isRefill, count }) => [client, verb, resource, isRefill, count]),
    [
      ["edge", "create", "tenancyclaims", false, 1],
      ["operator", "patch", "pods", false, 1],
      ["operator", "patch", "tenancyclaims/status", false, 1],
      ["operator", "create", "pods", true, 1],
      ["operator", "patch", "pods", true, 1],
      ["operator", "patch", "tenancypools/status", true, 1],
    ],
  );
  assert.equal(requestsPerClaim(counts, 1), { writes: 3, reads: 0 });
});

test("countRequests: everything else that operator or edge ask for counts, reads apart from writes", () => {
  const log = [
    line(edge, "get", claims),
    line(operator, "list", { resource: "pods", namespace: "tenancy" }),
    line(operator, "create", { resource: "events", name: "e" }),
    line(operator, "delete", claims),
    line(operator, "delete", claims),
  ].join("\n");
  assert.equal(requestsPerClaim(countRequests(log, new Set()), 2), { writes: 1.5, reads: 1 });
});

test("createLogReader: gives whole lines, each once; the rest of a line comes with its end", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-log-reader-"));
  const path = join(folder, "audit.log");
  const log = createLogReader(path);
  assert.is(log.next(), "");
  appendFileSync(path, "one\ntwo\nthr");
  assert.is(log.next(), "one\ntwo\n");
  assert.is(log.next(), "");
  appendFileSync(path, "ée\nfour\n");
  assert.is(log.next(), "thrée\nfour\n");
  rmSync(folder, { recursive: true });
});

test.run();
