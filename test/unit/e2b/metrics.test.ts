// @runtimes bun node deno
// The figures of a sandbox by the real program, which sees files of this test as its control group.
import { execFileSync } from "node:child_process";
import { constants, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open, rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation } from "../../../crds/labels.ts";
import { insideExec } from "../edge/inside/inside-exec.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { untilCommandsEnd } from "../snapshots/local-exec.ts";
import { ask, ROOT } from "./sandbox-calls.ts";

const MIB = 2 ** 20;
const NOW = Date.parse("2030-01-01T00:00:00.700Z");
const SECOND = Math.floor(NOW / 1000);
const active: ClaimStatus = {
  ...{ phase: "Active", instanceId: "inst-a", endpoint: { host: "10.0.0.1", port: 8080 }, source: "cold" },
  claimedAt: "2026-01-01T00:00:00Z",
};
const second = {
  "cgroup.controllers": "cpu memory",
  "cpu.max": "50000 100000",
  "memory.current": `${100 * MIB}`,
  "memory.max": `${128 * MIB}`,
  "memory.stat": `anon ${80 * MIB}\nfile ${20 * MIB}\nshmem ${5 * MIB}`,
};

interface Context {
  folder: string;
  execs: number;
  edge: TestEdge;
}

const test = suite<Context>("metrics of a sandbox");

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-metrics-"));
  context.execs = 0;
  const exec = await insideExec({ controlGroups: context.folder });
  context.edge = testEdge({
    ...{ apiKey: ROOT, clock: systemClock, timeOfDay: () => NOW },
    exec(options) {
      context.execs += 1;
      return exec(options);
    },
  });
  context.edge.cluster.addWorkload("app");
  context.edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active });
});
test.after.each(async ({ edge, folder }) => {
  await edge.channels.close();
  await edge.activity.close();
  await untilCommandsEnd();
  rmSync(folder, { recursive: true });
});

function place(folder: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), `${text}\n`);
  }
}

/** Makes a file whose two readings get these texts; resolves when they have. */
async function answerReadings(path: string, [first, next]: readonly [string, string]): Promise<void> {
  const second = `${path}.next`;
  for (const pipe of [path, second]) execFileSync("mkfifo", [pipe]);
  // Its opening waits for the first reader; the next one finds another pipe.
  const file = await open(path, constants.O_WRONLY);
  await rename(second, path);
  await file.writeFile(first);
  await file.close();
  await writeFile(path, next);
}

for (const { name, files, used, readings } of [
  {
    ...{
      name: "the first version",
      used: "cpuacct/cpuacct.usage",
      readings: ["7000000000\n", "7200000000\n"] as const,
    },
    files: {
      "cpu/cpu.cfs_quota_us": "50000",
      "cpu/cpu.cfs_period_us": "100000",
      "memory/memory.usage_in_bytes": `${100 * MIB}`,
      "memory/memory.limit_in_bytes": `${128 * MIB}`,
      "memory/memory.stat": `cache 1\nshmem 1\ntotal_cache ${20 * MIB}\ntotal_shmem ${5 * MIB}`,
    },
  },
  {
    ...{ name: "the second version", used: "cpu.stat", files: second },
    readings: ["usage_usec 7000000\nuser_usec 1\n", "usage_usec 7200000\nuser_usec 1\n"] as const,
  },
]) {
  test(`control groups of ${name}: CPU between two readings, and memory without what is cached`, async (context) => {
    const { folder, edge } = context;
    place(folder, files);
    mkdirSync(dirname(join(folder, used)), { recursive: true });
    const from = performance.now();
    const answered = answerReadings(join(folder, used), readings);
    const { status, text, json } = await ask(edge, "GET /sandboxes/app--a/metrics");
    await answered;
    const seconds = (performance.now() - from) / 1000;
    assert.is(status, 200, text);
    const [{ cpuUsedPct, diskTotal, diskUsed, ...point }] = json as [Record<string, number>];
    assert.equal(point, {
      ...{ timestamp: new Date(NOW).toISOString(), timestampUnix: SECOND, cpuCount: 0.5 },
      ...{ memTotal: 128 * MIB, memUsed: 85 * MIB, memCache: 15 * MIB },
    });
    // 0.2 s of half a processor, in 0.5 s or longer.
    const share = Number(cpuUsedPct);
    assert.ok(share <= 80 && share >= Math.floor(40 / seconds), `${share} in ${seconds} s`);
    assert.ok(Number(diskUsed) > 0 && Number(diskUsed) <= Number(diskTotal), `${diskUsed} of ${diskTotal}`);
  });
}

test("a container without limits may use what the machine has, and envd's answer has the same figures", async (context) => {
  const { folder, edge } = context;
  place(folder, { ...second, "cpu.max": "max 100000", "memory.max": "max", "cpu.stat": "usage_usec 1" });
  const { json } = await ask(edge, "GET /sandboxes/app--a/metrics");
  const [point] = json as [Record<string, number>];
  assert.ok(Number(point.memTotal) > 128 * MIB);
  assert.ok(Number.isInteger(point.cpuCount), String(point.cpuCount));
  const headers = { "e2b-sandbox-id": "app--a", "x-api-key": ROOT };
  const envd = await edge.call("GET /metrics", { headers });
  const { disk_used: _, disk_total: __, ...figures } = envd.json as Record<string, number>;
  assert.equal(figures, {
    ...{ ts: SECOND, cpu_count: point.cpuCount, cpu_used_pct: 0 },
    ...{ mem_total: point.memTotal, mem_used: 85 * MIB, mem_cache: 15 * MIB },
    ...{ mem_total_mib: Math.floor(Number(point.memTotal) / MIB), mem_used_mib: 85 },
  });
});

test("a container that shows no figures is an error, not zeros", async ({ edge }) => {
  const { status, text } = await ask(edge, "GET /sandboxes/app--a/metrics");
  assert.is(status, 409, text);
  assert.match(text, /does not show what it uses: .*cpuacct\.usage/);
});

test("asking for figures does not count as use of the instance", async ({ folder, edge }) => {
  place(folder, { ...second, "cpu.stat": "usage_usec 1" });
  assert.is((await ask(edge, "GET /sandboxes/app--a/metrics")).status, 200);
  await edge.activity.close();
  assert.is(edge.cluster.read(pods, "inst-a").metadata.annotations?.[annotation.lastActivity], undefined);
});

test("the interval counts in whole seconds; outside of it nothing is asked in the pod", async (context) => {
  const { folder, edge } = context;
  place(folder, { ...second, "cpu.stat": "usage_usec 1" });
  const points = async (query: string) => {
    const { status, text, json } = await ask(edge, `GET /sandboxes/app--a/metrics?${query}`);
    assert.is(status, 200, text);
    return (json as unknown[]).length;
  };
  assert.is(await points(`end=${SECOND - 1}`), 0);
  assert.is(await points(`start=${SECOND + 1}`), 0);
  assert.is(context.execs, 0);
  assert.is(await points(`start=${SECOND}&end=${SECOND}`), 1);
  for (const query of ["start=1.5", "start=-1", "end=later", "start=2&end=1", "start=1&start=2", "step=1"])
    assert.is((await ask(edge, `GET /sandboxes/app--a/metrics?${query}`)).status, 400, query);
});

test("a sandbox that starts has no figures yet, and one that does not exist is not found", async (context) => {
  const { edge } = context;
  edge.cluster.addClaim({ tenantId: "b", workloadRef: "app", status: { phase: "Pending" } });
  assert.equal((await ask(edge, "GET /sandboxes/app--b/metrics")).json, []);
  assert.is((await ask(edge, "GET /sandboxes/app--c/metrics")).status, 404);
  assert.is(context.execs, 0);
});

test.run();
