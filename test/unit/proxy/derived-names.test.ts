// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import { derivedDigits, hostLabel } from "../../../crds/host-name.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { createDerivedNames } from "../../../edge/proxy/wake/derived-names.ts";
import { createKnownTenants } from "../../../edge/proxy/wake/known-tenants.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { FakeCluster } from "../edge/fake-cluster.ts";
import { manualClock } from "../manual-clock.ts";
import { startPod } from "./fake-pod.ts";
import { comparable, get, KEY, namesOf, startDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("derived host names of instances without a claim");
test.after.each(closeAll);

const key = `X-Tenancy-Key: ${KEY}`;

test("a public instance that sleeps is woken by its derived name, at each of its ports", async () => {
  let lists = 0;
  const archives = [{ tenantId: "user_1", workloadRef: "app" }];
  const door = await startDoor({
    listArchives: async () => {
      lists += 1;
      return archives;
    },
  });
  const pod = await startPod();
  door.addWorkload("app", "public", { network: { ports: [1, pod.target.port] } });
  const host = hostLabel({ workload: "app", tenantId: "user_1", port: pod.target.port });
  const asked = door.ask(get(`${host}.apps.test`));
  await eventually(() => door.cluster.verbs().includes("create"));
  const status: ClaimStatus = {
    phase: "Active",
    source: "pool",
    instanceId: "inst-user-1-app-1",
    endpoint: { host: "127.0.0.1", port: pod.target.port },
  };
  const [claim] = door.cluster.cache.claims.store.by("key", claimKey({ tenantId: "user_1", workloadRef: "app" }));
  door.cluster.setStatus((claim as Claim).metadata.name, status);
  assert.match(await asked, /^HTTP\/1.1 200 /);
  assert.is(lists, 1);
  assert.is(door.accessed[0]?.tenant, "user_1");
});

test("a derived name of nobody and of what is closed is one answer, after one list, which no key opens", async () => {
  let lists = 0;
  const archives = ["app", "linked"].map((workloadRef) => ({ tenantId: "user_1", workloadRef }));
  const door = await startDoor({
    listArchives: async () => {
      lists += 1;
      return archives;
    },
  });
  door.addWorkload("linked", "link");
  const asks = (workload: string, ...lines: string[]) =>
    door.ask(get(`${hostLabel({ workload, tenantId: "user_1" })}.apps.test`, "/", ...lines));
  const before = await asks("linked");
  assert.match(before, /^HTTP\/1.1 404 /);
  assert.is(lists, 0, "nobody is let in without a key");
  door.addWorkload("open", "public");
  for (const answer of await Promise.all([asks("linked"), asks("open"), asks("nothing"), asks("nothing", key)])) {
    assert.is(comparable(answer), comparable(before));
  }
  assert.is(lists, 1);
  assert.equal(door.cluster.calls, []);
  assert.equal(
    door.accessed.map(({ status, tenant }) => [status, tenant]),
    Array(5).fill([404, undefined]),
  );
});

test("a derived name whose list does not come: the visitor may go, and no list is a 503", async () => {
  const list = createDeferred<never[]>();
  let lists = 0;
  const door = await startDoor({
    listArchives: () => {
      lists += 1;
      return list.promise;
    },
  });
  door.addWorkload("app", "public");
  const asked = get(`${hostLabel({ workload: "app", tenantId: "user_1" })}.apps.test`);
  const wire = door.wire(asked);
  await eventually(() => lists === 1);
  const other = door.ask(asked);
  wire.socket.destroy();
  await eventually(() => door.accessed.length === 1);
  assert.is(door.accessed[0]?.status, 499);
  list.reject(new Error("no volume"));
  assert.match(await other, /^HTTP\/1.1 503 /);
});

test("KnownTenants: who was released or has files is known by the digits of derived names", async () => {
  const clock = manualClock();
  const cluster = new FakeCluster();
  let archives: { tenantId: string; workloadRef: string }[] = [];
  const known = createKnownTenants({ claims: cluster.cache.claims, readNames: namesOf(async () => archives), clock });
  const [one, two] = ["user_1", "user_2"].map((tenantId) => ({ tenantId, workloadRef: "app" }));
  const digits = (tenantId: string) => derivedDigits({ workload: "app", tenantId }) as string;
  known.onReleased(one as ClaimKey);
  assert.equal(known.named(digits("user_1")), one);
  archives = [two as ClaimKey];
  await known.refresh(digits("user_2"));
  assert.equal(known.named(digits("user_1")), one, "the list may be older than its archive");
  assert.equal(known.named(digits("user_2")), two);
  assert.ok(known.isListed(digits("user_2")));
  await clock.pass(121_000);
  known.onReleased({ tenantId: "x", workloadRef: "app" });
  assert.is(known.named(digits("user_1")), undefined);
  archives = [];
  await known.refresh(digits("user_2"));
  assert.is(known.named(digits("user_2")), undefined);
});

test("DerivedNames: of more names than are remembered, those that are asked for are found, and no others kept", async () => {
  const clock = manualClock();
  let pages = 0;
  const tenants = Array.from({ length: 5000 }, (_, index) => ({ tenantId: `user_${index}`, workloadRef: "app" }));
  const derived = createDerivedNames({
    clock,
    mostNames: 100,
    async readNames({ after, limit }) {
      pages += 1;
      const from = after === undefined ? 0 : 1 + Number(after.tenantId.slice("user_".length));
      const items = tenants.slice(from, from + limit);
      return { items, next: from + limit < tenants.length ? items.at(-1) : undefined };
    },
  });
  const digits = (tenantId: string) => derivedDigits({ workload: "app", tenantId }) as string;
  await derived.refresh(digits("user_4999"));
  assert.equal(derived.named(digits("user_4999")), tenants[4999]);
  assert.is(pages, 5);
  const named = tenants.filter(({ tenantId }) => derived.named(digits(tenantId)) !== undefined);
  assert.is(named.length, 101);
  const last = digits("user_4000");
  assert.is(derived.isListed(last), false);
  // The list of a moment ago has passed it over; lists are not made for each visitor.
  assert.match(String(await errorOf(derived.refresh(last))), "too many archives");
  assert.is(pages, 5);
  await clock.pass(60_000);
  await derived.refresh(digits("nobody_1"));
  assert.equal([derived.named(last), derived.named(digits("nobody_1"))], [tenants[4000], undefined]);
  assert.is(derived.isListed(digits("nobody_1")), true);
});

test("KnownTenants: a list that takes longer than it is used tells those who waited for it", async () => {
  const clock = manualClock();
  let lists = 0;
  const known = createKnownTenants({
    claims: new FakeCluster().cache.claims,
    clock,
    async readNames() {
      lists += 1;
      if (lists > 3) throw new Error("listed again and again");
      await clock.pass(61_000);
      return { items: [{ tenantId: "user_1", workloadRef: "app" }], next: undefined };
    },
  });
  const digits = derivedDigits({ workload: "app", tenantId: "user_1" }) ?? "";
  await known.refresh(digits);
  assert.is(lists, 1);
  assert.equal([known.isListed(digits), known.named(digits)?.tenantId], [true, "user_1"]);
});

test("KnownTenants: strangers' names are remembered up to a bound, and too many at once are refused", async () => {
  let looks = 0;
  let answer = createDeferred<void>();
  answer.resolve();
  const known = createKnownTenants({
    claims: new FakeCluster().cache.claims,
    clock: manualClock(),
    async readNames() {
      looks += 1;
      await answer.promise;
      return { items: [], next: undefined };
    },
  });
  const ask = async (tenantId: string) => await known.has({ tenantId, workloadRef: "app" });
  for (let index = 0; index < 10_001; index += 1) assert.is(await ask(`t${index}`), false);
  assert.is(await ask("t10000"), false);
  assert.is(looks, 10_001);
  assert.is(await ask("t0"), false);
  assert.is(looks, 10_002, "the oldest made room");
  answer = createDeferred();
  const asked = Array.from({ length: 40 }, (_, index) => ask(`new-${index}`).catch(String));
  answer.resolve();
  const refused = (await Promise.all(asked)).filter((one) => one !== false);
  assert.equal(refused, Array(8).fill("Error: too many visitors request unknown tenants"));
});

test.run();
