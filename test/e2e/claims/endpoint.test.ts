// @limit 2400
// @waits
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { readIfThere } from "../../../scripts/cluster/process/read-if-there.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { clusterOfFile } from "../cluster-of-file.ts";
import { podProcesses } from "../pod-processes.ts";
import { type Stack, startStack } from "./stack.ts";

const NAME = clusterOfFile("e2e-endpoint");
const LIMIT_MS = 180_000;
const test = suite("addresses of real containers that are given again");
let stack: Stack;

interface Claimed {
  instanceId: string;
  host: string;
  port: number;
  source: string;
}

test.before(async () => {
  stack = await startStack(NAME);
  // Every container tells whose it is: its pod's name.
  const script = "mkdir -p /tmp/www && hostname > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www";
  const spec = {
    image: { ref: "localhost/tenancy-hello:1" },
    resources: { memoryMb: 64 },
    network: { ports: [8080] },
    entrypoint: { cmd: "/bin/sh", args: ["-c", script] },
    health: { httpGet: { path: "/", port: 8080 }, intervalSeconds: 1 },
  };
  const { status, body } = await stack.call("POST", "/workloads", { name: "named", spec });
  assert.is(status, 201, JSON.stringify(body));
});

async function claimAs(tenant: string): Promise<Claimed> {
  const { status, body } = await stack.claim(tenant, { workload: "named" });
  assert.is(status, 201, JSON.stringify(body));
  const { instanceId, endpoint, source } = body as unknown as Claimed & { endpoint: Claimed };
  return { instanceId, source, host: endpoint.host, port: endpoint.port };
}

const eventually = (what: string, condition: () => Promise<boolean>) =>
  waitUntil(condition, { what, limitMs: LIMIT_MS, intervalMs: 50 });

/** The name of the pod that answers at an address; undefined where none does. */
async function answererAt({ host, port }: Claimed): Promise<string | undefined> {
  try {
    const response = await fetch(`http://${host}:${port}/`, { signal: AbortSignal.timeout(2000) });
    return (await response.text()).trim();
  } catch {
    return undefined;
  }
}

/** Where the network plugin of the cluster's node notes which addresses are taken. */
const addresses = join(clusterFolder(NAME), "network", "addresses", "pods");

/** Makes the next pod of the node get a free address, as it would by itself after some 250 other pods. */
function giveNext(host: string): void {
  const parts = host.split(".");
  const before = [...parts.slice(0, 3), Number(parts[3]) - 1].join(".");
  const [last] = readdirSync(addresses).filter((file) => file.startsWith("last_reserved_ip"));
  assert.ok(last, `no note of the last address in ${addresses}`);
  writeFileSync(join(addresses, last), before);
}

/** Kills the program of the container runtime that a pod's sandbox and containers run under. */
async function killSandbox(instanceId: string): Promise<void> {
  const uid = (await stack.kubectl("get", "pod", instanceId, "-o", "jsonpath={.metadata.uid}")).trim();
  const shims = podProcesses(uid)
    .map((pid) => Number(/^PPid:\s+(\d+)$/m.exec(readIfThere(`/proc/${pid}/status`) ?? "")?.[1]))
    .filter((parent) => readIfThere(`/proc/${parent}/comm`)?.startsWith("containerd-shim"));
  const [shim] = shims;
  assert.ok(shim, `no shim of pod ${instanceId} (${uid})`);
  process.kill(shim, "SIGKILL");
}

const shownEndpoint = async (tenant: string): Promise<{ host: string } | undefined> => {
  const { body } = await stack.call("GET", `/tenants/${tenant}`);
  return (body.claims as { endpoint?: { host: string } }[])[0]?.endpoint;
};

/** Of tenant ann: the pod with its first address, and with the one after. */
let first: Claimed;
let moved: Claimed;

test("a sandbox that is made anew: the endpoint follows, and no call goes to anybody else meanwhile", async () => {
  first = await claimAs("ann");
  assert.is(await answererAt(first), first.instanceId);
  await killSandbox(first.instanceId);

  // Until the pod has its new address, no call may be sent to anybody else.
  const killedAt = performance.now();
  let refused = 0;
  await eventually("another address", async () => {
    moved = await claimAs("ann");
    const answerer = await answererAt(moved);
    if (answerer === undefined) refused += 1;
    else assert.is(answerer, first.instanceId);
    return moved.host !== first.host && answerer !== undefined;
  });
  const seconds = ((performance.now() - killedAt) / 1000).toFixed(1);
  console.log(
    `note: ${first.host} became ${moved.host} ${seconds} s after the kill; ${refused} answers were not reached`,
  );
  assert.equal([moved.instanceId, moved.source], [first.instanceId, "existing"]);
  await eventually("the claim shows it", async () => {
    const host = await stack.kubectl(
      "get",
      "tenancyclaim",
      "claim-ann-named",
      "-o",
      "jsonpath={.status.endpoint.host}",
    );
    return host === moved.host;
  });
  await eventually("the list shows it", async () => (await shownEndpoint("ann"))?.host === moved.host);
});

test("a destroyed pod's address goes to another tenant, and its claim to another pod", async () => {
  const destroyed = await claimAs("dan");
  assert.is((await stack.call("POST", `/instances/${destroyed.instanceId}/destroy`)).status, 200);
  assert.is(await shownEndpoint("dan"), undefined);
  await eventually("the address is free", async () => !existsSync(join(addresses, destroyed.host)));
  giveNext(destroyed.host);
  const other = await claimAs("eve");
  assert.is(other.host, destroyed.host, "the address was not given again");
  assert.is(await answererAt(other), other.instanceId);

  const shown = await stack.kubectl(
    "get",
    "tenancyclaim",
    "claim-dan-named",
    "-o",
    "jsonpath={.status.phase} {.status.endpoint}",
  );
  assert.is(shown.trim(), "Active");
  const again = await claimAs("dan");
  assert.is(again.source, "cold");
  assert.is.not(again.instanceId, destroyed.instanceId);
  assert.is(await answererAt(again), again.instanceId);
  assert.is(await answererAt(other), other.instanceId);
});

// Last, since the kubelet lets go of what is left of a sandbox once a minute.
test("the address that a sandbox had before is nobody's but its new holder's", async () => {
  await eventually("the old address is free", async () => !existsSync(join(addresses, first.host)));
  giveNext(first.host);
  const other = await claimAs("ben");
  assert.is(other.host, first.host, "the address was not given again");
  assert.is(await answererAt(other), other.instanceId);
  const again = await claimAs("ann");
  assert.is(again.host, moved.host);
  assert.is(await answererAt(again), first.instanceId);
});

test.after(async () => {
  if (stack !== undefined) assert.is(await stack.interrupt(), 0, stack.output());
});

test.run();
