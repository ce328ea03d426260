// @runtimes bun
import { Registry } from "prom-client";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Accessed, createAccess } from "../../../edge/proxy/access.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { get, startDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("the access log and its metrics");
test.after.each(closeAll);

function accessWith(logRate: number) {
  const clock = manualClock();
  const lines: (Accessed & { skipped?: number })[] = [];
  const registry = new Registry();
  const log = { ...silentLog, info: (fields: object) => void lines.push(fields as Accessed) };
  const gauges = { clients: () => 3, pods: () => 2, waking: () => 1 };
  const access = createAccess({ registry, gauges, log, logRate, clock });
  return { clock, lines, registry, access };
}

const request = { requestId: "r", method: "GET", path: "/p" };

test("counts by workload and code, and times to the response's head", async () => {
  const { access, registry } = accessWith(0);
  const at = { ...request, workload: "app", tenant: "alice" };
  for (const status of [200, 204, 101, 404, 500, 502, 499]) access.ended({ ...at, status });
  access.ended({ ...at, status: 200, answeredMs: 20, received: 5, sent: 7 });
  access.ended({ ...at, status: 200, isComplete: false });
  access.ended({ ...at, status: 404, isComplete: false });
  access.ended({ ...request, status: 404 });
  access.refused(400);
  access.woken("pool", 30);
  const text = await registry.metrics();
  const counted = [...text.matchAll(/^tenancy_proxy_requests_total(\{.*\}) (\d+)$/gm)].map(
    ([, labels, n]) => `${labels} ${n}`,
  );
  // An alert counts an increase of failures, which a series that begins above zero does not have.
  assert.equal(counted.sort(), [
    '{workload="-",code="4xx"} 2',
    '{workload="-",code="502"} 0',
    '{workload="-",code="503"} 0',
    '{workload="-",code="504"} 0',
    '{workload="app",code="1xx"} 1',
    '{workload="app",code="2xx"} 3',
    '{workload="app",code="499"} 1',
    '{workload="app",code="4xx"} 2',
    '{workload="app",code="502"} 1',
    '{workload="app",code="503"} 0',
    '{workload="app",code="504"} 0',
    '{workload="app",code="5xx"} 1',
    '{workload="app",code="cut"} 1',
  ]);
  for (const line of [
    'tenancy_proxy_duration_seconds_sum{workload="app"} 0.02',
    'tenancy_proxy_wake_seconds_count{source="pool"} 1',
    'tenancy_proxy_bytes_total{direction="received"} 5',
    'tenancy_proxy_bytes_total{direction="sent"} 7',
    'tenancy_proxy_connections{side="client"} 3',
    'tenancy_proxy_connections{side="pod"} 2',
    "tenancy_proxy_waking 1",
  ]) {
    assert.ok(text.includes(`${line}\n`), line);
  }
  assert.not.match(text, "alice");
});

test("what was counted of a deleted workload is removed, and counts anew where one has its name again", async () => {
  const { access, registry } = accessWith(0);
  for (const workload of ["app", "other"])
    for (const status of [200, 404]) access.ended({ ...request, workload, status, answeredMs: 20 });
  access.forget("app");
  access.forget("nothing");
  const text = await registry.metrics();
  assert.not.match(text, '"app"');
  assert.ok(text.includes('tenancy_proxy_requests_total{workload="other",code="4xx"} 1\n'));
  access.ended({ ...request, workload: "app", status: 200, answeredMs: 20 });
  const anew = await registry.metrics();
  assert.ok(anew.includes('tenancy_proxy_requests_total{workload="app",code="2xx"} 1\n'));
  assert.ok(anew.includes('tenancy_proxy_duration_seconds_count{workload="app"} 1\n'));
});

test("a workload that is deleted takes its series along, with what its end has ended", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app", () => undefined);
  const waiting = door.wire(get("app--alice.apps.test"));
  await eventually(() => pod.received() !== "");
  const object = door.cluster.cache.workloads.store.get("tenancy/app");
  if (object === undefined) throw new Error("no workload");
  door.proxy.onWorkload({ type: "deleted", object, previous: object });
  await waiting.seen("HTTP/1.1 404 ");
  assert.is(door.accessed.length, 1);
  assert.not.match(await door.registry.metrics(), '"app"');
});

test("so many lines a second and no more; the next one says how many were left out", () => {
  const { access, lines, clock } = accessWith(2);
  for (let count = 0; count < 5; count += 1) access.ended({ ...request, status: 200 });
  assert.is(lines.length, 2);
  clock.set(clock.now() + 1000);
  access.ended({ ...request, status: 200 });
  access.ended({ ...request, status: 200 });
  assert.equal(
    lines.map(({ skipped }) => skipped),
    [undefined, undefined, 3, undefined],
  );
});

test.run();
