import WebSocket from "ws";
import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { FILES_WORKLOAD } from "../fixtures/files-workload.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { claimCall } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";

const LARGE_BYTES = 64 * 2 ** 20;
const TERMINALS_EACH = 20;

/**
 * Processes and files of an instance by the API, each with the same by `kubectl exec` or a bare read beside it, and what
 * open terminals take of the edge's memory.
 *
 * @param options.n calls of each kind
 * @param options.instances how many of them have 20 terminals each
 */
export async function measureInside(
  environment: BenchEnvironment,
  options: { n: number; instances: number; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { n, instances, log, signal } = options;
  const { edge, edgeUrl } = environment;
  const workload = "bench-inside";
  await createWorkload(environment, workload, { ...FILES_WORKLOAD, resources: { vcpus: 1, memoryMb: 64, diskGb: 1 } });
  const tenants = Array.from({ length: instances }, (_, index) => `inside-${index}`);
  const ids: string[] = [];
  for (const tenantId of tenants) {
    const claimed = await claimCall(edge, { tenantId, workload });
    if (claimed.kind === "failed")
      throw new Error(`Cannot measure processes and files: a claim failed: ${claimed.why}`);
    ids.push(claimed.instanceId);
    log(`${ids.length} of ${instances} instances`);
  }
  const base = `/api/v1/instances/${ids[0]}`;
  const url = `${edgeUrl}${base}`;
  const common = { missed: 0, failures: {} };

  async function timed(count: number, call: () => Promise<unknown>): Promise<number[]> {
    const samples: number[] = [];
    for (let done = 0; done < count; done += 1) {
      signal.throwIfAborted();
      const start = performance.now();
      await call();
      samples.push(performance.now() - start);
    }
    return samples;
  }
  async function run(path: string): Promise<void> {
    const { status, text } = await edge.call("POST", `${base}/${path}`, { command: ["/bin/true"] });
    if (status !== 200) throw new Error(`Cannot run a command: ${status} ${text}`);
  }
  async function send(body: Uint8Array): Promise<void> {
    const response = await fetch(`${url}/files/data/measured`, { method: "PUT", body });
    if (response.status !== 200) throw new Error(`Cannot write a file: ${await response.text()}`);
  }
  async function receive(): Promise<void> {
    const response = await fetch(`${url}/files/data/measured`);
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`Cannot read a file: ${response.status}`);
  }
  const rssMb = async () => (await environment.usage()).edge?.rssMb ?? Number.NaN;

  await run("processes");
  const process = await timed(n, () => run("processes"));
  const byKubectl = await timed(Math.ceil(n / 3), () => run("exec"));
  await send(new Uint8Array(1024));
  const small = await timed(n, receive);
  const large = crypto.getRandomValues(new Uint8Array(65_536));
  const content = Buffer.alloc(LARGE_BYTES, large);
  const before = await rssMb();
  const written = await timed(Math.ceil(n / 10), () => send(content));
  const read = await timed(Math.ceil(n / 10), receive);
  const grown = (await rssMb()) - before;
  const sockets: WebSocket[] = [];
  const beforeTerminals = await rssMb();
  for (const id of ids) {
    for (let count = 0; count < TERMINALS_EACH; count += 1) {
      const socket = new WebSocket(`${edgeUrl.replace("http", "ws")}/api/v1/instances/${id}/terminal`);
      sockets.push(socket);
      // The first text names the process.
      await new Promise((resolve, reject) => socket.once("message", resolve).once("error", reject));
    }
  }
  const terminals = (await rssMb()) - beforeTerminals;
  for (const socket of sockets) socket.terminate();
  await releaseAll(edge, tenants, { workload, signal });
  const opened = `${sockets.length} open terminals took ${terminals.toFixed(0)} MiB of the edge`;
  return [
    {
      path: "inside-process",
      samplesMs: process,
      floorMs: byKubectl,
      ...common,
      note: `floor: kubectl exec; ${opened}`,
    },
    { path: "inside-read-1kib", samplesMs: small, ...common },
    { path: "inside-write-64mib", samplesMs: written, ...common, note: `the edge grew by ${grown.toFixed(0)} MiB` },
    { path: "inside-read-64mib", samplesMs: read, ...common },
  ];
}
