import type { ApiClient } from "../kubernetes/api-client.ts";
import { pause } from "../process/wait-until.ts";
import type { Pod } from "./pod.ts";

export interface PodWatchOptions {
  client: ApiClient;
  onPod: (pod: Pod) => void;
  onGone: (uid: string) => void;
  onTrouble: (error: unknown) => void;
  signal: AbortSignal;
}

const PAGE = 500;

/** Reports every pod of the cluster as it is and as it changes, until the signal is aborted. */
export async function watchPods(options: PodWatchOptions): Promise<void> {
  const { client, signal } = options;
  const known = new Set<string>();
  let resourceVersion: string | undefined;
  let waitMs = 100;
  while (!signal.aborted) {
    try {
      resourceVersion ??= await list();
      await client.lines(
        `/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=${resourceVersion}`,
        onLine,
        signal,
      );
      waitMs = 100;
    } catch (error) {
      if (signal.aborted) return;
      options.onTrouble(error);
    }
    // A server that ends every watch at once would otherwise be asked without end.
    await pause(waitMs, signal);
    waitMs = Math.min(waitMs * 2, 2000);
  }

  async function list(): Promise<string> {
    const seen = new Set<string>();
    let version = "";
    let next = "";
    do {
      const page = await client.call({ method: "GET", path: `/api/v1/pods?limit=${PAGE}&continue=${next}` });
      if (page.status !== 200)
        throw new Error(`Cannot list the pods: status ${page.status} ${page.text.slice(0, 300)}`);
      const { metadata, items } = JSON.parse(page.text) as {
        metadata: { resourceVersion: string; continue?: string };
        items: Pod[];
      };
      for (const pod of items) {
        seen.add(pod.metadata.uid);
        report(pod);
      }
      version = metadata.resourceVersion;
      next = encodeURIComponent(metadata.continue ?? "");
    } while (next !== "");
    for (const uid of known) if (!seen.has(uid)) forget(uid);
    return version;
  }

  function onLine(line: Buffer): void {
    const { type, object } = JSON.parse(line.toString("utf8")) as { type: string; object: Pod };
    if (type === "ERROR") {
      resourceVersion = undefined;
      return;
    }
    resourceVersion = object.metadata.resourceVersion ?? resourceVersion;
    if (type === "DELETED") forget(object.metadata.uid);
    else if (type !== "BOOKMARK") report(object);
  }

  function report(pod: Pod): void {
    known.add(pod.metadata.uid);
    options.onPod(pod);
  }

  function forget(uid: string): void {
    known.delete(uid);
    options.onGone(uid);
  }
}
