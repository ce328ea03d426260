import type { Pod, Secret } from "../../../crds/kubernetes.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";

/** The helper pod, which runs. */
export function runningHelper(podIP = "10.0.0.1"): Pod {
  const container = { name: SNAPSHOTS_CONTAINER, ready: true, restartCount: 0, image: "i", state: { running: {} } };
  return {
    metadata: { name: SNAPSHOTS_NAME, labels: SNAPSHOTS_LABELS },
    spec: { containers: [] },
    status: { phase: "Running", podIP, containerStatuses: [container] },
  };
}

/** The Secret of the helper pod with these texts, or another of that kind. */
export function storeSecret(texts: Record<string, string>, name = SNAPSHOTS_NAME): Secret {
  const data = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]);
  return { metadata: { name }, data: Object.fromEntries(data) };
}

/** What is recorded of an archive. */
export const archive: SnapshotMetadata = {
  ...{ tenantId: "t", workloadRef: "w", uid: 1, gid: 2, entries: 0, contentBytes: 0, sizeBytes: 1 },
  ...{ sha256: "0123456789abcdef".repeat(4), createdAt: "2026-11-21T12:00:00.000Z", overlayDirs: ["/data"] },
};
