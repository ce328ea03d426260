import { join } from "node:path";
import { Writable } from "node:stream";
import { namespaces, persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec, type Exec } from "../../../crds/client/exec/exec.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { Container, Pod } from "../../../crds/kubernetes.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../../crds/snapshots/snapshots-names.ts";
import { archiveLimits } from "../../../operator/snapshots/archive-limits.ts";
import { type ArchiveStore, createArchiveStore } from "../../../operator/snapshots/archive-store.ts";
import { renderSnapshotsClaim, renderSnapshotsPod } from "../../../operator/snapshots/helper-pod.ts";
import type { OverlayPod } from "../../../operator/snapshots/overlay-pod.ts";
import { podTools, TOOLS_CONTAINER } from "../../../operator/snapshots/pod-tools.ts";
import { restoreOverlay } from "../../../operator/snapshots/restore-overlay.ts";
import { saveOverlay } from "../../../operator/snapshots/save-overlay.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { BUSYBOX_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { makeSnapshotsVolume } from "../../../scripts/start/snapshots-volume.ts";

export const namespace = "snapshots-test";
export const overlayDirs = ["/data", "/home/somebody"];
const limits = archiveLimits({ diskGb: 4 });

export interface WorkloadPodOptions {
  readonly image?: string | undefined;
  readonly command?: string[] | undefined;
  /** @default 65532 */
  readonly user?: number | undefined;
  readonly restoreAs?: { uid: number; gid: number } | undefined;
}

/** A cluster with the helper pod in it, and what the operator would do to a tenant's pod. */
export interface Stage {
  readonly cluster: LocalCluster;
  readonly client: ClusterClient;
  readonly exec: Exec;
  readonly store: ArchiveStore;
  readonly volumeFolder: string;
  createPod(name: string, options?: WorkloadPodOptions): Promise<void>;
  untilRunning(name: string, container: string): Promise<void>;
  /** Runs a script in a pod with the tools that were brought there; resolves with what it wrote. */
  run(pod: string, script: string): Promise<string>;
  save(pod: string, key: SnapshotKey, timeoutMs?: number): Promise<SnapshotMetadata>;
  restore(pod: string, key: SnapshotKey, options?: { cold?: boolean; timeoutMs?: number }): Promise<unknown>;
  down(): Promise<void>;
}

export async function startStage(name: string): Promise<Stage> {
  const cluster = await upLocalCluster({ name });
  const config = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  const transport = createTransport({ config, role: "test" });
  const client = createClusterClient({ transport });
  const exec = createExec({ config });
  const volumeFolder = join(cluster.volumesFolder, `snapshots-${namespace}`);
  const signal = new AbortController().signal;
  const store = createArchiveStore({
    exec,
    folder: { namespace, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER },
  });

  async function untilRunning(pod: string, container: string): Promise<void> {
    let last: Pod | undefined;
    await waitUntil(
      async () => {
        last = await client.get(pods, { namespace, name: pod });
        const { initContainerStatuses = [], containerStatuses = [] } = last.status ?? {};
        const found = [...initContainerStatuses, ...containerStatuses].find((status) => status.name === container);
        return found?.state?.running !== undefined;
      },
      {
        what: `container ${container} of ${pod} to run`,
        ...{ limitMs: 180_000, intervalMs: 50, explain: () => JSON.stringify(last?.status) },
      },
    );
  }

  const at = (pod: string, container = "workload"): OverlayPod => ({ namespace, pod, container });

  await client.create(namespaces, { metadata: { name: namespace } });
  await makeSnapshotsVolume({ client, namespace, folder: cluster.volumesFolder, size: "20Gi", signal });
  await client.create(persistentVolumeClaims, renderSnapshotsClaim({ namespace, size: "20Gi", storageClass: "" }));
  await client.create(pods, renderSnapshotsPod({ namespace, image: BUSYBOX_IMAGE }));
  await untilRunning(SNAPSHOTS_NAME, SNAPSHOTS_CONTAINER);

  return {
    ...{ cluster, client, exec, store, volumeFolder, untilRunning },
    async createPod(pod, { image = BUSYBOX_IMAGE, command = ["sleep", "36000"], user = 65532, restoreAs } = {}) {
      const tools = podTools({ image: BUSYBOX_IMAGE, overlayDirs, diskGb: 4, restoreAs });
      const container: Container = {
        ...{ name: "workload", image, command, volumeMounts: tools.volumeMounts },
        // The kubelet counts the overlay directories against the largest limit of the pod's containers.
        resources: { limits: { "ephemeral-storage": "8Gi" } },
        securityContext: {
          runAsUser: user,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"] },
        },
      };
      await client.create(pods, {
        metadata: { name: pod, namespace },
        spec: {
          automountServiceAccountToken: false,
          terminationGracePeriodSeconds: 0,
          securityContext: { seccompProfile: { type: "RuntimeDefault" } },
          initContainers: tools.initContainers,
          containers: [container],
          volumes: tools.volumes,
        },
      });
      await untilRunning(pod, restoreAs === undefined ? "workload" : TOOLS_CONTAINER);
    },
    async run(pod, script) {
      let output = "";
      const stdout = new Writable({
        write(chunk: Buffer, _encoding, callback) {
          output += chunk.toString("utf8");
          callback();
        },
      });
      const shell = `b=/.tenancy/busybox; ${script}`;
      const command = ["/.tenancy/busybox", "sh", "-c", shell];
      const { exitCode, stderr } = await exec({ ...at(pod), command, stdout, timeoutMs: 120_000 });
      if (exitCode !== 0) throw new Error(`${script} ended with ${exitCode}: ${stderr}`);
      return output;
    },
    save(pod, key, timeoutMs = 60_000) {
      return saveOverlay({ exec, store, key, pod: at(pod), overlayDirs, limits, signal, timeoutMs });
    },
    restore(pod, key, { cold = false, timeoutMs = 60_000 } = {}) {
      const where = cold ? at(pod, TOOLS_CONTAINER) : at(pod);
      return restoreOverlay({
        ...{ exec, store, key, pod: where, overlayDirs, limits, opensGate: cold, signal, timeoutMs },
      });
    },
    async down() {
      transport.close();
      await downLocalCluster({ name });
    },
  };
}

/** Prints a digest of everything that a save keeps, of the pod's overlay directories. */
export const digestScript = `for folder in /data /home/somebody; do
  cd $folder
  $b find . -mindepth 1 -type d -print0 | $b sort -z | $b xargs -0 -r $b stat -c '%n %a %Y %u %g %F'
  $b find . ! -type d ! -type l ! -type p -print0 | $b sort -z | $b xargs -0 -r $b stat -c '%n %a %Y %u %g %s %h %F'
  $b find . -type l -print0 | $b sort -z | $b xargs -0 -r -n 1 $b readlink
  $b find . -type f -print0 | $b sort -z | $b xargs -0 -r $b sha256sum
done | $b sha256sum`;

/** Fills the pod's overlay directories with everything that a save must keep. */
export const fillScript = `set -e; cd /data
touch() { $b touch "$@"; }; mkdir() { $b mkdir "$@"; }; chmod() { $b chmod "$@"; }; ln() { $b ln "$@"; }
mkdir empty deep deep/er "$($b printf 'new\\nline')" 日本語
echo plain > plain; echo here > deep/er/here; echo odd > "$($b printf 'caf\\351')"; echo quoted > "it's \\"\\$HOME\\" \\\\"
ln plain deep/hard; ln plain hard; ln -s plain link; ln -s /usr/bin/env absolute; ln -s ../../x upward; ln -s no dangling
long=nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn; mkdir $long$long$long; echo l > $long$long$long/$long$long$long$long
ln -s $long$long$long$long$long /home/somebody/long-target
$b truncate -s 64M sparse; $b dd if=/dev/urandom of=large bs=1M count=24 2>/dev/null
for mode in 0400 0600 0666 0755 0777 1644 2755 4755; do echo $mode > mode-$mode; chmod $mode mode-$mode; done
for mode in 0500 0555 0777 1777 2775; do mkdir folder-$mode; echo in > folder-$mode/in; ln -s /late folder-$mode/late; done
$b mkfifo pipe
touch -d @1000000001 plain deep/er/here large sparse; touch -d @1000000002 empty folder-0500 folder-0555 deep/er
touch -d @1000000003 deep folder-2775
for mode in 0500 0555 0777 1777 2775; do chmod $mode folder-$mode; done`;
