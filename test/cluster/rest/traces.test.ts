// @own-cluster
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims, triggers } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { releaseTrace } from "../../../crds/tracing/trace-context.ts";
import { AUDIT_POLICY, countRequests, createLogReader } from "../../../scripts/bench/audit-log.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";
import { eventually } from "../../eventually.ts";
import { type EdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { type CollectedSpan, type Collector, startCollector, treeOf } from "../../unit/tracing/collector.ts";
import { type NamedPods, POD_NETWORK, startNamedPods } from "../proxy/named-pods.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("traces of the real programs on a real API server");
const KEY = "a-key-that-no-span-may-hold";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`;

let tenancy: Tenancy;
let named: NamedPods;
let collector: Collector;
let traced: Programs;
/** Started meanwhile: its operator waits for the lead. */
let plain: Promise<Programs>;
let audit: ReturnType<typeof createLogReader>;
/** What the API server has written down of requests so far. */
let log = "";
const folder = mkdtempSync(join(tmpdir(), "tenancy-traces-"));
const bundle = bundleOperator(join(import.meta.dirname, "../../.."));

test.before(async () => {
  const [policy, audited] = [join(folder, "policy.yaml"), join(folder, "audit.log")];
  writeFileSync(policy, AUDIT_POLICY);
  audit = createLogReader(audited);
  collector = await startCollector();
  named = await startNamedPods(() => tenancy.client);
  tenancy = await startTenancy("rest-traces", {
    nodes: { podNetwork: POD_NETWORK },
    apiServerFlags: [`--audit-policy-file=${policy}`, `--audit-log-path=${audited}`],
  });
  const network = { ports: [named.port] };
  for (const name of ["cold", "warm"]) await tenancy.createWorkload(name, { network });
  await tenancy.createPool("warm", { workloadRef: "warm", size: 1 });
  await tenancy.client.create(triggers, {
    metadata: { name: "hook", namespace: NAMESPACE },
    spec: {
      ...{ type: "webhook", workloadRef: "cold", tenant: { from: "who" }, config: { path: "/hooks/s3cret-path" } },
      guards: [{ type: "allowlist", config: { tenantIds: ["hooked"] } }],
    },
  });
  traced = await startPrograms({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20of-the-collector",
    OTEL_BSP_SCHEDULE_DELAY: "100",
  });
  plain = startPrograms({});
  plain.catch(() => undefined);
});

test.after(async () => {
  await Promise.all([traced?.stop(), plain?.then((programs) => programs.stop())]);
  await tenancy?.stop();
  await Promise.all([named?.stop(), collector?.stop()]);
  rmSync(folder, { recursive: true });
});

/** An edge under Bun and an operator under Node. */
interface Programs {
  readonly edge: EdgeProcess;
  stop(): Promise<unknown>;
}

async function startPrograms(env: Record<string, string>): Promise<Programs> {
  const { kubeconfigPath } = tenancy.cluster;
  const operator = spawn(process.execPath, [await bundle], {
    env: {
      ...{ PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", KUBECONFIG: kubeconfigPath },
      ...{ TENANCY_OPERATOR_LISTEN: "off", TENANCY_SNAPSHOT_IMAGE: "simulated/snapshots:1" },
      ...env,
    },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const edge = await startReadyEdge("bun", { KUBECONFIG: kubeconfigPath, TENANCY_API_KEY: KEY, ...env });
  // A claim call waits for half a minute alone, which a busy machine may take to start an operator.
  await tenancy.until("an operator to lead", async () => ((await tenancy.leader()) ?? "") !== "");
  return { edge, stop: () => Promise.all([operator, edge.child].map(terminate)) };
}

async function terminate(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  await new Promise((resolve) => {
    child.once("exit", resolve);
    child.kill("SIGTERM");
  });
}

async function call({ edge }: Programs, path: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${edge.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${KEY}`, ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
}

/** The spans of a trace, once both programs have exported theirs. */
async function traceWith(last: readonly string[], find: (span: CollectedSpan) => boolean): Promise<CollectedSpan[]> {
  const traceId = () => collector.spans.find(find)?.traceId;
  const found = () => collector.spans.filter((span) => span.traceId === traceId());
  await eventually(() => last.every((name) => found().some((span) => span.name === name)));
  return found();
}

/** With when it began in its trace, and how long it took. */
function timed(trace: readonly CollectedSpan[]): (span: CollectedSpan) => string {
  const ms = (nanos: bigint) => `${(Number(nanos) / 1e6).toFixed(1)} ms`;
  const began = trace.map(({ startTimeUnixNano }) => BigInt(startTimeUnixNano)).reduce((a, b) => (a < b ? a : b));
  return (span) => {
    const [start, end] = [BigInt(span.startTimeUnixNano), BigInt(span.endTimeUnixNano)];
    return `${line(span)} (at ${ms(start - began)}, ${ms(end - start)})`;
  };
}

const line = ({ service, name }: CollectedSpan) => `${service.replace("tenancy-", "")}: ${name}`;

test("a REST call is one trace from the caller to Active, through edge and operator", async () => {
  const path = "/api/v1/tenants/alice/claim?";
  const answer = await call(traced, path, { workload: "cold" }, { traceparent });
  assert.is(answer.status, 201, answer.text);
  const spans = await traceWith(["POST /api/v1/tenants/:id/claim", "start claim"], ({ traceId }) => traceId === TRACE);
  const tree = treeOf(spans, line);
  console.log(`note: ${treeOf(spans, timed(spans)).join("\n      ")}`);
  assert.is(tree[0], "edge: POST /api/v1/tenants/:id/claim");
  assert.is(tree[1], "  edge: create claim");
  assert.is(tree[2], "    operator: start claim");
  const steps = tree.filter((step) => step.startsWith("      operator: ")).map((step) => step.trim().slice(10));
  assert.is(steps[0], "create pod");
  // Which of the pod's steps the operator sees one by one depends on how fast they are.
  for (const step of steps)
    assert.match(step, /^(create pod|schedule pod|start containers|wait until ready|activate)$/);
  assert.ok(steps.includes("wait until ready") && steps.includes("activate"), steps.join());
  const endOf = (wanted: string) => BigInt(spans.find(({ name }) => name === wanted)?.endTimeUnixNano ?? 0);
  const waits = tree.slice(3 + steps.length);
  // There may be no wait for a claim that is Active before the call that made it is answered.
  if (waits.length > 0 || endOf("activate") > endOf("create claim")) assert.equal(waits, ["  edge: wait until Active"]);
  const [root] = spans.filter(({ name }) => name.startsWith("POST"));
  assert.is(root?.parentSpanId, "00f067aa0ba902b7");
  const { instanceId } = JSON.parse(answer.text);
  for (const name of ["start claim", "create pod", "POST /api/v1/tenants/:id/claim"])
    assert.is(spans.find((span) => span.name === name)?.attributes["k8s.pod.name"], instanceId);
  assert.is(collector.requests[0]?.headers.authorization, "Bearer of-the-collector");
});

test("a webhook is one trace from the delivery to the container's answer", async () => {
  const delivered = await call(traced, "/hooks/s3cret-path", { who: "hooked", text: "s3cret" }, { traceparent });
  assert.equal(delivered, { status: 200, text: "hooked" });
  const spans = await traceWith(["POST", "start claim"], ({ attributes }) => attributes["tenancy.trigger"] === "hook");
  // Whoever sends to a webhook without a secret does not choose its trace.
  assert.is.not(spans[0]?.traceId, TRACE);
  const tree = treeOf(spans, line).filter((step) => !step.startsWith("        "));
  assert.equal(tree, [
    "edge: POST",
    "  edge: webhook event",
    "    edge: guards",
    "    edge: create claim",
    "      operator: start claim",
    "    edge: wait until Active",
    "    edge: forward to instance",
  ]);
});

test("a release is a trace of the operator's, which the release call names", async () => {
  const { metadata } = await tenancy.client.get(claims, { namespace: NAMESPACE, name: "claim-alice-cold" });
  const answer = await call(traced, "/api/v1/tenants/alice/release?wait=true", { workload: "cold" });
  assert.is(answer.status, 200, answer.text);
  const { traceId, spanId } = releaseTrace(metadata.uid ?? "");
  const spans = await traceWith(["release claim"], (span) => span.traceId === traceId);
  assert.equal(treeOf(spans, line), ["operator: release claim", "  operator: delete pod"]);
  const isRoot = ({ name }: CollectedSpan) => name === "release claim";
  assert.is(spans.find(isRoot)?.spanId, spanId);
  assert.is(spans.find(isRoot)?.links?.[0]?.traceId, TRACE);
  await eventually(() => collector.spans.some(({ name }) => name === "wait until released"));
  assert.equal(collector.spans.find(({ name }) => name === "delete claim")?.links, [{ traceId, spanId }]);
});

test("with and without tracing, a claim and its release are the same writes to the API server", async () => {
  const withTracing = await writesOf(traced, "counted-1");
  console.log(`note: ${withTracing.writes.join(", ")}`);
  // What was not exported yet is at the stop.
  const before = collector.spans.length;
  const late = await call(traced, "/api/v1/tenants/nobody/release", { workload: "cold" });
  assert.is(late.status, 404);
  const former = await tenancy.leader();
  await traced.stop();
  assert.ok(collector.spans.slice(before).some(({ attributes }) => attributes["tenancy.tenant"] === "nobody"));
  const sofar = collector.spans.length;

  await tenancy.until(
    "the other operator to lead",
    async () => !([former, "", undefined] as unknown[]).includes(await tenancy.leader()),
  );
  const without = await writesOf(await plain, "counted-2");
  assert.equal(withTracing.writes, without.writes);
  assert.equal(withTracing.annotations, [...without.annotations, annotation.traceparent].sort());
  assert.is(collector.spans.length, sofar);
  assert.not.match(collector.requests.map(({ body }) => body).join(), /s3cret|a-key-that-no-span-may-hold/);
});

/** What the programs write of a warm claim and its pod until its release has ended, and the claim's annotations. */
async function writesOf(programs: Programs, tenant: string): Promise<{ writes: string[]; annotations: string[] }> {
  await tenancy.until("a warm pod", () => tenancy.members("warm", "ready").length === 1);
  const answer = await call(programs, `/api/v1/tenants/${tenant}/claim`, { workload: "warm" });
  assert.is(answer.status, 201, answer.text);
  const { source, instanceId } = JSON.parse(answer.text);
  assert.is(source, "pool");
  const name = `claim-${tenant}-warm`;
  const { metadata } = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
  await call(programs, `/api/v1/tenants/${tenant}/release?wait=true`, { workload: "warm" });
  const writes = () => {
    log += audit.next();
    const lines = log.split("\n").filter((said) => [name, instanceId].some((of) => said.includes(`"name":"${of}"`)));
    return countRequests(lines.join("\n"), new Set([instanceId]))
      .filter(({ verb }) => !/^(get|list|watch)$/.test(verb))
      .map(({ client, verb, resource, count }) => {
        // Where the watch is behind, the finalizer is taken away from what it shows once more.
        const isFinalizer = client === "operator" && verb === "update" && resource === "tenancyclaims";
        return `${client}: ${isFinalizer ? "at least 1" : count} ${verb} ${resource}`;
      })
      .sort();
  };
  // It may be written down after the watch has shown that the claim is gone.
  await tenancy.until("the last write", () => writes().includes("operator: at least 1 update tenancyclaims"));
  return { writes: writes(), annotations: Object.keys(metadata.annotations ?? {}).sort() };
}

test.run();
