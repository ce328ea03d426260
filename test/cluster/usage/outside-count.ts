import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

/** A session as the API server's own events show it. */
export interface SeenSession {
  readonly tenantId: string;
  /** `status.claimedAt` */
  readonly from: string;
  /** Undefined while the session goes on; the claim's `deletionTimestamp` if that ended it. */
  end?: { readonly deletedAt: string | undefined };
}

export interface OutsideCount {
  /** By the uid of the claim and that of the pod, with a dot between them. */
  readonly sessions: ReadonlyMap<string, SeenSession>;
  stop(): void;
}

interface Seen {
  readonly type: string;
  readonly object: {
    readonly metadata: { readonly uid: string; readonly resourceVersion: string; readonly deletionTimestamp?: string };
    readonly spec: { readonly tenantId: string };
    readonly status?: { readonly phase?: string; readonly instanceUid?: string; readonly claimedAt?: string };
  };
}

/**
 * Counts sessions from watches of kubectl's: by nothing that the operator counts them with. The server ends a watch
 * after some minutes; the next one goes on from the last event.
 */
export async function countOutside(options: { kubeconfigPath: string; namespace: string }): Promise<OutsideCount> {
  const { kubeconfigPath, namespace } = options;
  const path = `/apis/tenancy.dev/v1alpha1/namespaces/${namespace}/tenancyclaims`;
  const command = await findKubectl();
  const sessions = new Map<string, SeenSession>();
  /** The session of each claim that goes on. */
  const open = new Map<string, string>();
  let lastVersion = await presentVersion();
  let isStopped = false;
  let watch = start();

  /** Sessions that end before the watch begins are in it too. */
  async function presentVersion(): Promise<string> {
    const list = await runCommand(command, ["--kubeconfig", kubeconfigPath, "get", "--raw", `${path}?limit=1`]);
    return (JSON.parse(list) as { metadata: { resourceVersion: string } }).metadata.resourceVersion;
  }

  function start(): ChildProcess {
    const query = new URLSearchParams({ watch: "true", allowWatchBookmarks: "true", resourceVersion: lastVersion });
    const child = spawn(command, ["--kubeconfig", kubeconfigPath, "get", "--raw", `${path}?${query}`], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    createInterface({ input: child.stdout }).on("line", (line) => see(JSON.parse(line)));
    child.on("close", () => {
      if (!isStopped) watch = start();
    });
    return child;
  }

  function see({ type, object }: Seen): void {
    // Events are missing then.
    if (type === "ERROR") throw new Error(`Cannot count sessions: ${JSON.stringify(object)}`);
    const { metadata, spec, status } = object;
    lastVersion = metadata.resourceVersion;
    if (type === "BOOKMARK") return;
    const id = `${metadata.uid}.${status?.instanceUid}`;
    const isOver = type === "DELETED" || metadata.deletionTimestamp !== undefined;
    const before = open.get(metadata.uid);
    if (before !== undefined && (isOver || before !== id)) {
      const session = sessions.get(before);
      if (session !== undefined) session.end = { deletedAt: metadata.deletionTimestamp };
      open.delete(metadata.uid);
    }
    if (isOver || status?.phase !== "Active" || status.instanceUid === undefined || sessions.has(id)) return;
    sessions.set(id, { tenantId: spec.tenantId, from: status.claimedAt ?? "" });
    open.set(metadata.uid, id);
  }

  return {
    sessions,
    stop() {
      isStopped = true;
      watch.kill();
    },
  };
}
