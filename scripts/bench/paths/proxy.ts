import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { onAbort } from "../../../crds/waits.ts";
import { connectionsWithin, readOpenFilesLimit } from "../../../edge/proxy/open-files.ts";
import { type EdgeRuntime, startEdge } from "../environment/start-programs.ts";
import { processUsage } from "../environment/usage.ts";
import { createWorkload, SIMULATED_WORKLOAD } from "../fixtures/create-workload.ts";
import { createPool, MAX_FILL_CONCURRENCY } from "../fixtures/pool.ts";
import { generate } from "../http/generate.ts";
import type { LoadOrder } from "../http/generate-load.ts";
import type { WebSocketOrder } from "../http/websockets.ts";
import type { Measurement } from "../report/measurement.ts";
import { percentile } from "../report/summarise.ts";
import type { BenchContext } from "./bench-context.ts";

const RUNTIMES: readonly EdgeRuntime[] = ["bun", "deno", "node"];
const CONNECTIONS = 64;
const ROUNDS = 4;
/** Fewer if the limit on open files does not allow as many in addition to the connections that send requests. */
const WEB_SOCKETS = 10_000;
/** The limits of the front door's cost compared with direct requests. A measurement's note names exceeded limits. */
const BOUNDS = { p50Ms: 0.5, p99Ms: 2, wakeMs: 20, perCpuSecond: 8000, webSocketsMib: 300 } as const;
const MESSAGES_PER_SECOND = 500;
const WORKLOAD = "bench-proxy";
const KEY = "a-key-of-the-bench-alone";

/**
 * Sends requests to a pod through the front door and directly, at the same time, from another process on the same
 * machine. Then wakes pods of a pool, alternating with claims of the same pool.
 */
export async function measureProxy(
  { environment, quick, log }: BenchContext,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const { kubeconfigPath, folder } = environment;
  const pod = startProgram("pod.ts", [], signal);
  const podPort = Number(await pod.line());
  const spec = { ...SIMULATED_WORKLOAD, network: { ports: [podPort], expose: "key" as const } };
  const headers = { "x-tenancy-key": KEY };
  const measurements: Measurement[] = [];
  try {
    await createWorkload(environment, WORKLOAD, spec);
    for (const runtime of RUNTIMES) {
      const settings = {
        TENANCY_EDGE_ROLES: "api,proxy",
        TENANCY_API_KEY: KEY,
        TENANCY_PROXY_TENANT_CONNECTIONS: "20000",
      };
      const edge = await startEdge({ kubeconfigPath, folder, runtime, settings, signal });
      try {
        await edge.ready;
        const door = Number(new URL(edge.proxyUrl).port);
        const through: Route = { port: door, path: `/t/bench/${WORKLOAD}/`, headers };
        await timed(through, new Agent());
        measurements.push(await throughput(`proxy-${runtime}`, edge.identity.pid, through));
        if (runtime !== "bun") continue;
        measurements.push(await latency(through, { port: podPort, path: "/" }));
        measurements.push(await wake(edge.url, door));
        measurements.push(await together(edge.identity.pid, through));
      } finally {
        await edge.stop();
      }
    }
    return measurements;
  } finally {
    pod.child.kill();
  }

  async function throughput(path: string, pid: number, route: Route): Promise<Measurement> {
    const order = { method: "GET", ...route, connections: CONNECTIONS, warmUpMs: 0 } as const;
    await generate({ ...order, measureMs: quick ? 500 : 2000 }, signal);
    const before = processUsage(pid);
    const {
      requests: n,
      failed,
      seconds,
      samplesMs,
    } = await generate({ ...order, measureMs: quick ? 1000 : 5000 }, signal);
    const cpuSeconds = (processUsage(pid).cpuMs - before.cpuMs) / 1000;
    const perSecond = n / seconds;
    const perCpuSecond = Math.round(n / cpuSeconds);
    log(`${path}: ${Math.round(perSecond)} requests/s, ${perCpuSecond} a second of the server's CPU time`);
    const failures: Record<string, number> = failed === 0 ? {} : { "status other than 200": failed };
    const note = withExceeded(
      `${CONNECTIONS} connections, ${perCpuSecond} requests a second of the server's CPU time`,
      {
        [`fewer than ${BOUNDS.perCpuSecond} of them`]: perCpuSecond < BOUNDS.perCpuSecond,
      },
    );
    return { path, samplesMs, whole: { n, failed }, missed: 0, failures, perSecond, note };
  }

  function withExceeded(note: string, exceeded: Readonly<Record<string, boolean>>): string {
    const said = Object.keys(exceeded).filter((bound) => exceeded[bound] === true);
    // In a quick run, the programs are not warm yet.
    return said.length === 0 || quick ? note : `${note}; BOUND EXCEEDED: ${said.join(", ")}`;
  }

  /** One connection. Its times are the latency; the floor is the pod itself. */
  async function latency(through: Route, straight: Route): Promise<Measurement> {
    const measureMs = quick ? 300 : 1500;
    const samples = { samplesMs: [] as number[], floorMs: [] as number[] };
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [route, into] of [
        [straight, samples.floorMs],
        [through, samples.samplesMs],
      ] as const) {
        const order = { method: "GET", ...route, connections: 1, warmUpMs: 100, measureMs } as const;
        into.push(...(await generate(order, signal)).samplesMs);
      }
    }
    const note = withExceeded("one connection; floor: the same request straight to the pod, turn about", {
      [`more than ${BOUNDS.p50Ms} ms beside it at p50`]: addedMs(samples, 0.5) > BOUNDS.p50Ms,
      [`more than ${BOUNDS.p99Ms} ms beside it at p99`]: addedMs(samples, 0.99) > BOUNDS.p99Ms,
    });
    return { path: "proxy-latency", ...samples, missed: 0, failures: {}, note };
  }

  /** Requests as fast as possible, while WebSockets are open and some of them are active. */
  async function together(pid: number, route: Route): Promise<Measurement> {
    const emptyMb = processUsage(pid).rssMb;
    const fitting = connectionsWithin((await readOpenFilesLimit()) ?? Infinity) - 2 * CONNECTIONS;
    const count = quick ? 500 : Math.min(WEB_SOCKETS, fitting);
    const order: WebSocketOrder = { headers: {}, ...route, count, perSecond: MESSAGES_PER_SECOND };
    const sockets = startProgram("websockets.ts", [JSON.stringify(order)], signal);
    try {
      await sockets.line();
      const openMb = processUsage(pid).rssMb;
      const measured = await throughput("proxy-bun+websockets", pid, route);
      const busyMb = processUsage(pid).rssMb;
      sockets.child.stdin.end();
      const echoesMs = (JSON.parse(await sockets.line()) as number[]).sort((a, b) => a - b);
      const echo = (share: number): string => (echoesMs[Math.floor(echoesMs.length * share)] ?? Number.NaN).toFixed(1);
      const memory = `edge ${emptyMb.toFixed(0)} MiB before, ${openMb.toFixed(0)} with them, ${busyMb.toFixed(0)} after`;
      const echoes = `${echoesMs.length} echoes, p50 ${echo(0.5)} ms, p99 ${echo(0.99)} ms`;
      const note = withExceeded(`${count} open WebSockets; ${echoes}; ${memory}; ${measured.note}`, {
        [`more than ${BOUNDS.webSocketsMib} MiB with them`]: openMb > BOUNDS.webSocketsMib,
      });
      return { ...measured, note };
    } finally {
      sockets.child.kill();
    }
  }

  /** One request at a time to a released tenant. The floor is a claim call from the same pool; the two alternate. */
  async function wake(api: string, door: number): Promise<Measurement> {
    const n = quick ? 10 : 200;
    const name = `${WORKLOAD}-pool`;
    await createWorkload(environment, name, spec);
    const pool = await createPool(environment, { name, size: 2 * n, maxFillConcurrency: MAX_FILL_CONCURRENCY });
    await pool.untilFull(signal);
    const agent = new Agent({ keepAlive: true });
    const samplesMs: number[] = [];
    const floorMs: number[] = [];
    const failures: Record<string, number> = {};
    try {
      for (let count = 0; count < n; count += 1) {
        const claim = { port: Number(new URL(api).port), path: `/api/v1/tenants/claim-${count}/claim` };
        const body = JSON.stringify({ workload: name, resume: true });
        const auth = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
        floorMs.push((await timed({ ...claim, headers: auth, body }, agent)).ms);
        const woken = await timed({ port: door, path: `/t/wake-${count}/${name}/`, headers }, agent);
        if (woken.status === 200) samplesMs.push(woken.ms);
        else {
          samplesMs.push(Number.POSITIVE_INFINITY);
          failures[`status ${woken.status}`] = (failures[`status ${woken.status}`] ?? 0) + 1;
        }
      }
    } finally {
      agent.destroy();
      await pool.remove(signal);
    }
    const note = withExceeded("a request to a tenant without a claim, answered by its pod; floor: a claim call", {
      [`more than ${BOUNDS.wakeMs} ms beside it at p50`]: addedMs({ samplesMs, floorMs }, 0.5) > BOUNDS.wakeMs,
      [`more than ${BOUNDS.wakeMs} ms beside it at p99`]: addedMs({ samplesMs, floorMs }, 0.99) > BOUNDS.wakeMs,
    });
    return { path: "proxy-wake", samplesMs, floorMs, missed: 0, failures, note };
  }
}

/** How much longer it took than its floor, at a percentile. */
function addedMs({ samplesMs, floorMs }: { samplesMs: number[]; floorMs: number[] }, share: number): number {
  const at = (times: number[]): number =>
    percentile(
      [...times].sort((a, b) => a - b),
      share,
    );
  return at(samplesMs) - at(floorMs);
}

type Route = Pick<LoadOrder, "port" | "path" | "headers">;

async function timed(route: Route & { body?: string }, agent: Agent): Promise<{ ms: number; status: number }> {
  const { port, path, headers = {}, body } = route;
  const startedAt = performance.now();
  const sent = request({
    port,
    path,
    headers,
    agent,
    hostname: "127.0.0.1",
    method: body === undefined ? "GET" : "POST",
  });
  sent.end(body);
  const [response] = await once(sent, "response");
  await text(response);
  return { ms: performance.now() - startedAt, status: response.statusCode };
}

/** Starts one of the bench's own programs. The caller reads its output line by line. */
function startProgram(
  name: string,
  programArguments: readonly string[],
  signal: AbortSignal,
): { child: ChildProcessByStdio<Writable, Readable, null>; line(): Promise<string> } {
  const main = join(import.meta.dirname, "..", "http", name);
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), main, ...programArguments], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ignoreAbort = onAbort(signal, () => child.kill());
  child.once("close", ignoreAbort);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async line() {
      const { value } = await lines.next();
      if (value === undefined) throw new Error(`Cannot measure: ${name} ended`);
      return value;
    },
  };
}
