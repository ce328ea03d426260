import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";

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
    readonly metadata: { readonly uid: string; readonly deletionTimestamp?: string };
    readonly spec: { readonly tenantId: string };
    readonly status?: { readonly phase?: string; readonly instanceUid?: string; readonly claimedAt?: string };
  };
}

/** Counts sessions from a watch of kubectl's: by nothing that the operator counts them with. */
export async function countOutside(options: { kubeconfigPath: string; namespace: string }): Promise<OutsideCount> {
  const { kubeconfigPath, namespace } = options;
  const path = `/apis/tenancy.dev/v1alpha1/namespaces/${namespace}/tenancyclaims?watch=true&timeoutSeconds=7200`;
  const watch = spawn(await findKubectl(), ["--kubeconfig", kubeconfigPath, "get", "--raw", path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const sessions = new Map<string, SeenSession>();
  /** The session of each claim that goes on. */
  const open = new Map<string, string>();
  createInterface({ input: watch.stdout }).on("line", (line) => see(JSON.parse(line)));

  function see({ type, object }: Seen): void {
    const { metadata, spec, status } = object;
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

  return { sessions, stop: () => void watch.kill() };
}
