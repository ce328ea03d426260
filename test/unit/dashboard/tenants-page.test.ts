import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { countClaims, pageOfClaiming, readTenantsView, usageOrder } from "../../../edge/dashboard/tenants/listing.ts";
import { claimsFor } from "../../../edge/dashboard/tenants/triggers-of.ts";

const test = suite("dashboard/tenants-page");

function claim(tenantId: string, phase: ApiTypes["Claim"]["phase"], reason?: string): ApiTypes["Claim"] {
  const endpoint = { host: "10.0.0.1", port: 8080 };
  return { tenantId, workloadRef: "app", phase, endpoint, ...(reason !== undefined && { reason }) };
}

test("the address says what is shown, and an unknown order is ignored", () => {
  const view = (query: string) => readTenantsView(new URLSearchParams(query));
  assert.equal(view(""), { sort: "tenant", prefix: "", after: "" });
  assert.equal(view("sort=constructor&prefix=a&after=b"), { sort: "tenant", prefix: "a", after: "b" });
  assert.equal(
    ["", "claims", "vcpu", "gib", "saved"].map((sort) => usageOrder(view(`sort=${sort}`))),
    [undefined, undefined, "vcpuSeconds", "mibSeconds", "snapshotByteHours"],
  );
});

test("claims are counted by tenant, and fail by their health, not only by their phase", () => {
  const counts = countClaims([
    claim("alice", "Active"),
    claim("alice", "Active", "CrashLooping"),
    claim("alice", "Error", "ImagePullFailed"),
    claim("bob", "Pending", "Pulling"),
    claim("bob", "ReleaseFailed"),
  ]);
  assert.equal(
    [...counts],
    [
      ["alice", { all: 3, failing: 2 }],
      ["bob", { all: 2, failing: 1 }],
    ],
  );
});

test("a page of tenants with claims has failing ones first, and goes on after a tenant", () => {
  const counts = new Map(
    Object.entries({ a: [1, 0], b: [5, 0], ab: [2, 2], c: [9, 1], ac: [1, 1] }).map(([id, [all = 0, failing = 0]]) => [
      id,
      { all, failing },
    ]),
  );
  const page = (prefix: string, after: string) => pageOfClaiming(counts, { prefix, after, limit: 2 });
  assert.equal(page("", ""), { ids: ["ab", "c"], next: "c" });
  assert.equal(page("", "c"), { ids: ["ac", "b"], next: "b" });
  assert.equal(page("", "b"), { ids: ["a"], next: undefined });
  assert.equal(page("a", "ab"), { ids: ["ac", "a"], next: undefined });
  assert.equal(page("", "gone"), { ids: ["ab", "c"], next: "c" });
});

test("a trigger claims for its fixed tenant, or for one that events can name and its allowlists have", () => {
  const allowlist = { type: "allowlist" as const, config: { tenantIds: ["tg-1"] } };
  const of = (tenant: ApiTypes["TriggerSpec"]["tenant"], id: string, guards: ApiTypes["TriggerSpec"]["guards"] = []) =>
    claimsFor({ tenant, guards }, id);
  assert.is(of({ static: "alice" }, "alice"), "at each event");
  assert.is(of({ static: "alice" }, "bob"), undefined);
  assert.is(of({ from: "owner" }, "bob"), "at events whose owner is bob");
  assert.is(of({ from: "chatId", prefix: "tg-" }, "tg-1"), "at events whose chatId is 1");
  assert.is(of({ from: "chatId", prefix: "tg-" }, "bob"), undefined);
  assert.is(of({ from: "chatId", prefix: "tg-" }, "tg-"), undefined);
  assert.is(of({ from: "chatId", prefix: "tg-" }, "tg-1", [allowlist]), "at events whose chatId is 1");
  assert.is(of({ from: "chatId", prefix: "tg-" }, "tg-2", [allowlist]), undefined);
});

test.run();
