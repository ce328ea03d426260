// @own-cluster
import { type ChildProcess, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type ClusterState, readClusterState } from "../../../scripts/cluster/cluster-state.ts";
import { temporaryClusterFolder } from "../../../scripts/cluster/folders.ts";
import { isRunning } from "../../../scripts/cluster/process/process-identity.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";

const test = suite("a parent that dies");
const name = `test-orphans-${process.pid}`;

const PARENT = fileURLToPath(new URL("./orphans-parent.ts", import.meta.url));

/** Starts a process that starts a control plane with simulated nodes, and resolves when that is up. */
async function startParent(): Promise<ChildProcess> {
  const parent = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), PARENT, name], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: parent.stdout })) if (line === "up") return parent;
  throw new Error("Cannot start the parent: it ended before its control plane was up");
}

// The second one starts under the name of the first.
for (const signal of ["SIGKILL", "SIGTERM"] as const) {
  test(`takes its control plane with it on ${signal}, and its name can be used again`, async () => {
    const parent = await startParent();
    const { processes } = readClusterState(temporaryClusterFolder(name)) as ClusterState;
    assert.equal(processes.map((process) => process.name).sort(), ["etcd", "kube-apiserver", "simulated-nodes"]);
    assert.ok(processes.every(({ identity }) => isRunning(identity)));
    parent.kill(signal);
    await waitUntil(() => processes.every(({ identity }) => !isRunning(identity)), {
      ...{ what: "the orphans to end", limitMs: 60_000 },
    });
  });
}

test.after(() => rmSync(temporaryClusterFolder(name), { recursive: true, force: true }));

test.run();
