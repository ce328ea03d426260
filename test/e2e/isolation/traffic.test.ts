// @limit 1800
// @own-cluster
import { isDeepStrictEqual } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { KubernetesList, NetworkPolicy, Pod } from "../../../crds/kubernetes.ts";
import { policyName } from "../../../crds/names.ts";
import { findProcess, readClusterState } from "../../../scripts/cluster/cluster-state.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { ENGINE } from "../../../scripts/cluster/policies/start-engine.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import type { TcpProxy } from "../../../scripts/cluster/process/tcp-proxy.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { slotOf } from "../../../scripts/cluster/slot.ts";
import { statusLocalCluster } from "../../../scripts/cluster/status-local-cluster.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { apiForPods } from "./api-for-pods.ts";
import { startClusterDns } from "./cluster-dns.ts";
import { type Destination, destinations, probeScript, readAnswers, type Source } from "./destinations.ts";
import { startWorld, worldRecords } from "./world.ts";

const NAME = "e2e-traffic";
const IMAGE = "localhost/tenancy-caller:e2e";
const HEAL_LIMIT_MS = 120_000;
/** How long places are asked again that should have answered. */
const LATE_MS = 60_000;

const modes = {
  none: { access: "none" },
  restricted: { access: "restricted" },
  "restricted, allowlist": { access: "restricted", allowlist: ["allowed.example"] },
  unrestricted: { access: "unrestricted" },
} satisfies Record<Exclude<Source, "no policy" | "build">, object>;

const test = suite("network policies by real packets");

const cluster = await upLocalCluster({ name: NAME });
if (cluster.policies.enforced) {
  testTraffic(cluster);
} else {
  const { because } = cluster.policies;
  console.log(`note: skipped what sends packets: policies are not enforced here: ${because}`);
  test.skip(`needs policies to be enforced, and here they are not: ${because}`);
  test("a cluster that enforces no policies says why", async () => {
    assert.equal((await statusLocalCluster({ name: NAME }))?.policies, { enforced: false, because });
    assert.ok(because.length > 0);
  });
}
test.after(() => downLocalCluster({ name: NAME }));
test.run();

function testTraffic(cluster: LocalCluster): void {
  let stack: Stack;
  let outside: Awaited<ReturnType<typeof startWorld>>;
  let api: TcpProxy;
  let table: Destination[];
  const instances = new Map<string, string>();

  test.before(start);

  test.after(async () => {
    await stack?.interrupt();
    await api?.close();
    await outside?.remove();
  });

  async function start(): Promise<void> {
    await installDebianPackages(["curl"], silent);
    const base = await busyboxFiles(await findStaticBusybox(silent));
    const curl = await programFiles({ programs: ["/usr/bin/curl"], files: [], base });
    const command = ["sh", "-c", "nc -ll -p 8080 -e echo instance"];
    await importImages(NAME, [{ name: IMAGE, files: [...base, ...curl], user: "65532:65532", command }]);
    outside = await startWorld(NAME);
    await startClusterDns(cluster, worldRecords);
    api = await apiForPods(cluster);
    stack = await startStack(NAME);
    assert.match(stack.output(), /network policies are enforced/);
    for (const [mode, network] of Object.entries(modes)) await claimNew("alice", workloadOf(mode), network);
    await claimNew("alice", "neighbour", { access: "unrestricted" });
    await claimNew("bob", "neighbour");
    await stack.kubectl("create", "namespace", "bystanders");
    await waitUntil(
      () => stack.kubectl("-n", "bystanders", "get", "serviceaccount", "default").catch(() => undefined),
      {
        ...{ what: "the namespace's account", limitMs: 60_000, intervalMs: 100 },
      },
    );
    await stack.kubectl(
      ...["-n", "bystanders", "run", "pod", `--image=${IMAGE}`, "--overrides", JSON.stringify(bystander())],
    );
    await stack.kubectl("-n", "bystanders", "wait", "pod/pod", "--for=condition=Ready", "--timeout=240s");
    const bob = instances.get("bob neighbour") ?? "";
    const link = await runIn(bob, "ip -6 address show dev eth0 | sed -n 's/.*inet6 \\(fe80[^/]*\\).*/\\1/p'");
    table = destinations({
      otherTenant: await addressOf("tenancy", bob),
      otherTenantV6: link.trim(),
      sameTenant: await addressOf("tenancy", instances.get("alice neighbour") ?? ""),
      unselected: await addressOf("bystanders", "pod"),
      hostAddress: cluster.hostAddress,
      kubeletPort: slotOf(readClusterState(clusterFolder(NAME))?.slot as number).ports.kubelet,
      apiServerPort: api.port,
    });
  }

  /** Root, for the port. */
  function bystander(): object {
    const script = "nc -ll -p 443 -e echo pod & nc -ll -p 9000 -e cat & exec nc -ll -p 8080 -e echo pod";
    const container = { name: "pod", image: IMAGE, command: ["sh", "-c", script], securityContext: { runAsUser: 0 } };
    return { spec: { automountServiceAccountToken: false, containers: [container] } };
  }

  async function claimNew(tenant: string, workload: string, network?: object): Promise<void> {
    if (network !== undefined) {
      const spec = { image: { ref: IMAGE }, network };
      const made = await stack.call("POST", "/workloads", { name: workload, spec });
      assert.is(made.status, 201, JSON.stringify(made.body));
    }
    const claimed = await stack.claim(tenant, { workload });
    assert.is(claimed.status, 201, `${JSON.stringify(claimed.body)}\n${stack.output()}`);
    instances.set(`${tenant} ${workload}`, String(claimed.body.instanceId));
  }

  async function addressOf(namespace: string, pod: string): Promise<string> {
    const found = JSON.parse(await stack.kubectl("-n", namespace, "get", "pod", pod, "-o", "json")) as Pod;
    return found.status?.podIP ?? "";
  }

  async function runIn(instance: string, script: string): Promise<string> {
    const answer = await stack.call("POST", `/instances/${instance}/exec`, { command: ["sh", "-c", script] });
    assert.is(answer.status, 200, JSON.stringify(answer.body));
    return String(answer.body.stdout);
  }

  function runFrom(source: Source, script: string): Promise<string> {
    if (source === "no policy") return stack.kubectl("-n", "bystanders", "exec", "pod", "--", "sh", "-c", script);
    return runIn(instances.get(`alice ${workloadOf(source)}`) ?? "", script);
  }

  const ask = async (source: Source, places: readonly Destination[]) =>
    readAnswers(places, await runFrom(source, probeScript(places)));

  /** Asks for a place that no policy closes, again where a busy machine is late. */
  const untilAnswer = (place: readonly Destination[], answer: string) =>
    waitUntil(async () => (await ask("no policy", place))[0] === answer, { what: answer, limitMs: LATE_MS });

  /**
   * Asks for every place from there, and again for those that should have answered and have not: a busy machine may be
   * late.
   *
   * @param isBeingClosed whether a place may also answer for a while that should not, since the policy has just come
   * back
   */
  async function answersFrom(source: Source, isBeingClosed: boolean): Promise<string[]> {
    const found = await ask(source, table);
    const endsAt = Date.now() + LATE_MS;
    for (;;) {
      const again = table.filter(({ answers }, row) =>
        found[row] === "-" ? answers[source] !== "-" : isBeingClosed && found[row] !== answers[source],
      );
      if (again.length === 0 || Date.now() > endsAt) return found;
      for (const [index, answer] of (await ask(source, again)).entries())
        found[table.indexOf(again[index] as Destination)] = answer;
    }
  }

  /** Asks for every cell by packets, prints what was expected and seen, and fails with the cells that differ. */
  async function checkTable(title: string, { isBeingClosed = false } = {}): Promise<void> {
    const sources = [...Object.keys(modes), "no policy"] as Source[];
    const seen = await Promise.all(sources.map((source) => answersFrom(source, isBeingClosed)));
    const rows = sources.flatMap((source, column) =>
      table.map(({ name, answers }, row) => [source, name, answers[source], seen[column]?.[row] ?? "-"]),
    );
    const widths = [22, 32, 14, 14];
    const lines = [["source", "destination", "expected", "seen"], ...rows].map((cells) =>
      cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join(" "),
    );
    console.log(`\n${title}\n${lines.join("\n")}`);
    assert.equal(
      rows.filter(([, , expected, found]) => expected !== found).map((cells) => cells.join(" | ")),
      [],
    );
    for (const { name, answers } of table.filter(({ answers }) => answers["no policy"] !== "-")) {
      const column = sources.indexOf("no policy");
      assert.is(seen[column]?.[table.findIndex((one) => one.name === name)], answers["no policy"], `control: ${name}`);
    }
  }

  async function policies(): Promise<NetworkPolicy[]> {
    return (JSON.parse(await stack.kubectl("get", "networkpolicy", "-o", "json")) as KubernetesList<NetworkPolicy>)
      .items;
  }

  async function untilHealed(before: readonly NetworkPolicy[]): Promise<void> {
    const specs = (list: readonly NetworkPolicy[]) =>
      Object.fromEntries(list.map(({ metadata, spec }) => [metadata.name, spec]));
    const started = performance.now();
    await waitUntil(async () => isDeepStrictEqual(specs(await policies()), specs(before)), {
      ...{ what: "the operator to put the policies back", limitMs: HEAL_LIMIT_MS, intervalMs: 100 },
    });
    console.log(`note: policies were back after ${((performance.now() - started) / 1000).toFixed(1)} s`);
  }

  test("each mode reaches what it may and nothing else", () => checkTable("policies as the operator made them"));

  test("the same again after all policies were deleted", async () => {
    const before = await policies();
    assert.ok(before.length >= Object.keys(modes).length + 1);
    await stack.kubectl("delete", "networkpolicy", "--all");
    await untilHealed(before);
    await checkTable("policies that the operator put back", { isBeingClosed: true });
  });

  test("a policy that somebody opened is closed again", async () => {
    const before = await policies();
    const patch = JSON.stringify([{ op: "add", path: "/spec/egress", value: [{}] }]);
    await stack.kubectl("patch", "networkpolicy", policyName("none"), "--type=json", "-p", patch);
    await untilHealed(before);
    assert.equal(
      await answersFrom("none", true),
      table.map(({ answers }) => answers.none),
    );
  });

  test("link-local addresses of pods are closed by IPv6 alone: the server listens there", async () => {
    const bob = instances.get("bob neighbour") ?? "";
    const own = table.filter(({ name }) => name.includes("link-local"));
    assert.equal(readAnswers(own, await runIn(bob, probeScript(own))), ["instance"]);
  });

  test("a pod that calls from its first moment is never answered", async () => {
    const address = await addressOf("bystanders", "pod");
    const once = `timeout 1 nc ${address} 8080 < /dev/null; echo asked`;
    const command = ["sh", "-c", `while true; do ${once}; sleep 0.05; done`];
    const spec = {
      image: { ref: IMAGE },
      network: { access: "none" },
      entrypoint: { cmd: command[0], args: command.slice(1) },
    };
    const made = await stack.call("POST", "/workloads", { name: "eager", spec });
    assert.is(made.status, 201, JSON.stringify(made.body));
    const claimed = await stack.claim("alice", { workload: "eager" });
    assert.is(claimed.status, 201, JSON.stringify(claimed.body));
    const log = () => stack.kubectl("logs", String(claimed.body.instanceId));
    const text = await waitUntil(async () => (await log()).split("asked").length > 5 && log(), {
      ...{ what: "the pod to have asked a few times", limitMs: 120_000, intervalMs: 500 },
    });
    assert.not.match(text, /pod/);
  });

  test("a running pod follows its workload's change of mode, down to open connections", async () => {
    const [place] = table.filter(({ name }) => name === "pod without policy, TCP 8080") as [Destination];
    const address = await addressOf("bystanders", "pod");
    const askPlace = async () => (await ask("unrestricted", [place]))[0];
    const script = `while true; do echo still there; sleep 1; done | timeout 600 nc ${address} 9000 > /tmp/echo`;
    await runFrom("unrestricted", `(${script}) > /dev/null 2>&1 &`);
    const echoed = async () => Number(await runFrom("unrestricted", "wc -l < /tmp/echo"));
    await waitUntil(async () => (await echoed()) > 2, { what: "the connection", limitMs: 120_000 });
    await waitUntil(async () => (await askPlace()) === "pod", { what: "the place to answer", limitMs: LATE_MS });
    const spec = { image: { ref: IMAGE }, network: { access: "none" } };
    const changed = await stack.call("PUT", "/workloads/unrestricted", { name: "unrestricted", spec });
    assert.is(changed.status, 200, JSON.stringify(changed.body));
    await waitUntil(async () => (await askPlace()) === "-" && (await askPlace()) === "-", {
      ...{ what: "the new policy", limitMs: 180_000 },
    });
    await waitUntil(
      async () => {
        const last = await echoed();
        await runFrom("unrestricted", "sleep 5");
        return (await echoed()) === last;
      },
      { what: "the connection to be cut", limitMs: 120_000 },
    );
    await runFrom("unrestricted", "killall nc; true");
  });

  test("without the engine nothing is let through, and the cluster is not whole", async () => {
    const [place] = table.filter(({ name }) => name === "pod without policy, TCP 443") as [Destination];
    const other = table.filter(({ name }) => name === "another tenant's pod") as [Destination];
    await untilAnswer(other, "instance");
    const engine = findProcess(clusterFolder(NAME), ENGINE);
    assert.ok(engine);
    await stopProcess(engine.identity, { name: ENGINE, graceMs: 0 });
    assert.equal(await ask("no policy", other), ["-"]);
    // Its own address, which no rule is asked about.
    await untilAnswer([place], "pod");
    assert.is((await statusLocalCluster({ name: NAME }))?.ready, false);
  });
}

function workloadOf(mode: string): string {
  return mode.replace(", ", "-");
}
