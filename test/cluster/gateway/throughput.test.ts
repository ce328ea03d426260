// @limit 300
import { Agent, request } from "node:http";
import { sign } from "@octokit/webhooks-methods";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { runtimes, startEdgeProcess } from "../../unit/edge/edge-process.ts";
import { deliver, type GatewayStage, SECRET, startGatewayStage } from "./gateway-stage.ts";

const test = suite("gateway throughput");
const CONNECTIONS = 16;
const MEASURE_MS = 3000;
let stage: GatewayStage;

test.before(async () => {
  stage = await startGatewayStage("gateway-load");
  await stage.writeSecret("hook", { secret: SECRET });
  await stage.createTrigger("load", {
    config: { path: "/hooks/load", secretRef: { name: "hook", key: "secret" } },
  });
  stage.container.onPayload = (_, response) => response.end("ok");
});

/** Posts one body again and again on kept connections. @returns answers a second, and how many were no 200 */
async function load(
  url: string,
  body: string,
  headers: Record<string, string>,
): Promise<{ count: number; perSecond: number; failed: number }> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const until = performance.now() + MEASURE_MS;
  let count = 0;
  let failed = 0;
  const post = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const sending = request(url, {
        method: "POST",
        agent,
        headers: { ...headers, "content-length": Buffer.byteLength(body) },
      });
      sending.on("response", (response) => {
        response.resume();
        response.on("end", () => resolve(response.statusCode ?? 0));
      });
      sending.on("error", reject);
      sending.end(body);
    });
  const from = performance.now();
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      while (performance.now() < until) {
        if ((await post()) !== 200) failed += 1;
        count += 1;
      }
    }),
  );
  agent.destroy();
  return { count, perSecond: count / ((performance.now() - from) / 1000), failed };
}

/** What the edge's process has used, which other programs on the machine do not change. */
async function cpuSeconds(metricsUrl: string | undefined): Promise<number> {
  const metrics = await (await fetch(`${metricsUrl}/metrics`)).text();
  return Number(/^process_cpu_seconds_total (.+)$/m.exec(metrics)?.[1]);
}

for (const runtime of Object.keys(runtimes) as (keyof typeof runtimes)[]) {
  test(`${runtime}: deliveries to a claimed tenant, against bare requests to its container`, async () => {
    const edge = await startEdgeProcess(runtime, { KUBECONFIG: stage.tenancy.cluster.kubeconfigPath });
    await stage.tenancy.until(
      "the edge is ready",
      async () => (await fetch(`${edge.metricsUrl}/readyz`)).status === 200,
    );
    const body = JSON.stringify({ action: "opened", number: 7 });
    const url = `${edge.url}/hooks/load`;
    assert.is((await deliver(url, body, { secret: SECRET })).status, 200);
    const headers = { "content-type": "application/json", "x-hub-signature-256": await sign(SECRET, body) };
    const bareUrl = `http://127.0.0.1:${stage.container.port}/`;
    await load(url, body, headers);
    const bare = await load(bareUrl, body, headers);
    const cpuBefore = await cpuSeconds(edge.metricsUrl);
    const gateway = await load(url, body, headers);
    const cpuMs = ((await cpuSeconds(edge.metricsUrl)) - cpuBefore) * 1000;
    const cost = (cpuMs / gateway.count).toFixed(2);
    const show = ({ perSecond }: { perSecond: number }) => `${perSecond.toFixed(0)}/s`;
    console.log(
      `note: ${runtime}: ${show(gateway)} through webhook and HTTP driver, ${show(bare)} bare; ${cost} ms of the edge's CPU a delivery (${CONNECTIONS} connections, one machine)`,
    );
    assert.is(gateway.failed + bare.failed, 0);
    edge.child.kill("SIGTERM");
    assert.is(await edge.exited, 0);
  });
}

test.after(() => stage?.stop());

test.run();
