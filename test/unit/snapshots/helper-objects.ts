import type { Pod, Secret } from "../../../crds/kubernetes.ts";
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
