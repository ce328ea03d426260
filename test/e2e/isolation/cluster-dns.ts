import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readClusterState } from "../../../scripts/cluster/cluster-state.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { createApiClient } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { policyChain } from "../../../scripts/cluster/policies/host-rules.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { slotOf } from "../../../scripts/cluster/slot.ts";
import type { LocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import type { AnsweringSettings } from "./answering-program.ts";

const IMAGE = "localhost/tenancy-answering:e2e";
const root = join(import.meta.dirname, "../../..");

/**
 * Runs a resolver as the cluster's DNS: a pod with the labels that policies know it by. The address that pods ask leads
 * to it, as kube-proxy makes a Service's; that rule goes with the cluster. Needs a cluster that enforces policies.
 */
export async function startClusterDns(cluster: LocalCluster, records: AnsweringSettings["records"]): Promise<void> {
  await importAnsweringImage(cluster.name);
  const servers = [
    { kind: "names", address: "0.0.0.0", port: 53, says: "" },
    { kind: "tcp", address: "0.0.0.0", port: 53, says: "cluster DNS" },
  ] as const;
  const settings: AnsweringSettings = { servers, records, certificate: "", key: "" };
  const client = createApiClient(cluster.kubeconfigPath);
  try {
    const { status, text } = await client.call({
      ...{ method: "POST", path: "/api/v1/namespaces/kube-system/pods" },
      body: {
        metadata: { name: "dns", labels: { "k8s-app": "kube-dns" } },
        spec: {
          automountServiceAccountToken: false,
          containers: [{ name: "main", image: IMAGE, args: [JSON.stringify(settings)] }],
        },
      },
    });
    if (status !== 201) throw new Error(`Cannot create the resolver's pod: ${text}`);
    const address = await waitUntil(
      async () => {
        const path = "/api/v1/namespaces/kube-system/pods/dns";
        const log = await client.call({ method: "GET", path: `${path}/log` });
        const pod = JSON.parse((await client.call({ method: "GET", path })).text) as { status: { podIP?: string } };
        return log.status === 200 && log.text.includes("ready") && pod.status.podIP;
      },
      { what: "the resolver", limitMs: 60_000, intervalMs: 100 },
    );
    await leadTo(cluster, address);
  } finally {
    client.close();
  }
}

async function leadTo({ name, hostAddress }: LocalCluster, address: string): Promise<void> {
  const slot = slotOf(readClusterState(clusterFolder(name))?.slot as number);
  const chain = policyChain(slot);
  writeFileSync(`/proc/sys/net/ipv4/conf/${slot.bridge}/forwarding`, "1");
  const rule = (...words: string[]) => runCommand("iptables", ["--wait", "-t", "nat", ...words]);
  await rule("-N", chain);
  for (const protocol of ["udp", "tcp"])
    await rule("-A", chain, "-p", protocol, "--dport", "53", "-j", "DNAT", "--to-destination", address);
  await rule("-A", "PREROUTING", "-i", slot.bridge, "-d", hostAddress, "-j", chain);
}

/** Node and the program that answers. */
async function importAnsweringImage(cluster: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-answering-"));
  try {
    const output = join(folder, "answering.mjs");
    const source = join(import.meta.dirname, "answering-program.ts");
    await runCommand("node_modules/.bin/bun", ["build", "--target=node", source, "--outfile", output], {
      folder: root,
    });
    const base = await busyboxFiles(await findStaticBusybox(silent));
    const node = await programFiles({ programs: [process.execPath], files: [], base });
    const program = { path: "answering.mjs", content: readFileSync(output), mode: 0o755 };
    const entrypoint = [process.execPath, "/answering.mjs"];
    await importImages(cluster, [{ name: IMAGE, files: [...base, ...node, program], entrypoint }]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
