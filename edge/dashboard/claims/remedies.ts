/** What to do about a claim's reason, in addition to its message; docs/reference/reasons.md has more. */
const remedies: Readonly<Record<string, string>> = {
  Starting: "Wait, or do what the message says.",
  Pulling: "Wait. A pool, a smaller image or a closer registry makes it faster.",
  Unhealthy: "Change spec.health.httpGet, or the program: it must listen on 0.0.0.0, not on 127.0.0.1.",
  Unschedulable: "Release claims, add nodes, or lower spec.resources of the workload.",
  WaitingForRoom: "Wait, release other claims, or raise the namespace's ResourceQuota.",
  WorkloadNotReady: "Look at the workload's reason. If it has none, check that an operator is running.",
  SnapshotsUnavailable:
    "Wait while the helper pod tenancy-snapshots starts. If it does not, look at that pod and its volume.",
  Restoring: "Wait: the files are being restored into the pod.",
  RestoreInterrupted: "Wait: the restore is tried in another pod, up to three in total.",
  Moving: "Wait: the files are being saved, because the pod is being deleted, evicted or drained.",
  Moved: "Wait: another pod is starting, and gets the files that were saved.",
  PodLost:
    "Wait: another pod is starting. If the pod was evicted because of its own files, raise spec.resources.diskGb.",
  WorkloadNotFound: "Create the workload. The claim then starts by itself.",
  WorkloadTerminating: "Use another workload, or create it again after its deletion has finished.",
  ImagePullFailed: "Fix spec.image.ref of the workload, then claim again.",
  CrashLooping: "Change the field that the message names, then claim again. Release an Active claim first.",
  ProgramEnded: "Wait: the container restarts. If it keeps exiting, change what the message names.",
  StartTimeout: "Find out what the pod was waiting for: its health check, its image, or its node.",
  QuotaExceeded: "Release a claim, raise the namespace's ResourceQuota, or lower spec.resources of the workload.",
  TenantQuotaExceeded: "Release one of the tenant's claims, or raise its limit, then claim again.",
  TenantStartsExceeded: "Wait as long as the message says, then claim again.",
  QuotasInvalid: "Correct ConfigMap tenancy-quotas, or delete it to set no limits.",
  RestoreFailed: "Do what the message says, claim another version, or claim without files. The snapshot is kept.",
  OnClaimFailed: "Fix entrypoint.onClaim of the workload, or the program in its image, then claim again.",
  InvalidInputs: "Create what the message names. If it breaks a rule, delete the claim and create it again.",
  InvalidLabels: "Delete the claim, and create it with the label that the message names changed.",
  Duplicate: "Use or delete the other claim of the same tenant and workload.",
  SaveFailed: "Wait: the save is retried. If it keeps failing, do what the message says, or discard the files.",
  RetryLimitExceeded: "Do what the message says, or discard the files. The save is now retried only once an hour.",
};

export function remedyOf(reason: string | undefined): string | undefined {
  return reason === undefined ? undefined : remedies[reason];
}
