// @own-cluster
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ClusterState, readClusterState } from "../../../scripts/cluster/cluster-state.ts";
import { startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { temporaryClusterFolder } from "../../../scripts/cluster/folders.ts";
import { isRunning } from "../../../scripts/cluster/process/process-identity.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";

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
    const again = await startControlPlane({ name, binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }) });
    await again.stop();
  });
}

test.run();
