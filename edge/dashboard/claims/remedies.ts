/** What to do about a claim's reason, beside what its message says; docs/reference/reasons.md has more. */
const remedies: Readonly<Record<string, string>> = {
  Starting: "Nothing, or what the message names.",
  Pulling: "Nothing. A pool, a smaller image or a nearer registry makes it faster.",
  Unhealthy: "Change spec.health.httpGet, or the program: it has to listen on 0.0.0.0, not on 127.0.0.1.",
  Unschedulable: "Release claims, add nodes, or lower spec.resources of the workload.",
  WorkloadNotReady: "See the workload's own reason. While it has none: check that an operator runs.",
  SnapshotsUnavailable: "Nothing while the helper pod tenancy-snapshots starts; else look at that pod and its volume.",
  Restoring: "Nothing: the files are on their way into the pod.",
  RestoreInterrupted: "Nothing: another pod is tried, at most three in all.",
  PodLost: "Nothing: another pod comes. After an eviction by the pod's own files, raise spec.resources.diskGb.",
  WorkloadNotFound: "Create the workload, then claim again.",
  WorkloadTerminating: "Use another workload, or create it again when it is gone.",
  ImagePullFailed: "Correct spec.image.ref of the workload, then claim again.",
  CrashLooping: "Change the field that the message names, then claim again; an Active claim has to be released first.",
  ProgramEnded: "Nothing at first: the container is started again. If it keeps ending, change what the message names.",
  StartTimeout: "Find out what the pod waited for: its health check, its image, or its node.",
  QuotaExceeded: "Release a claim, or raise the namespace's ResourceQuota.",
  RestoreFailed: "Do what the message says, claim another version, or go on without the files. The snapshot is kept.",
  Duplicate: "Use or delete the other claim of the same tenant and workload.",
  SaveFailed: "Nothing at first: it is tried again. If it stays so, do what the message says, or give the files up.",
  RetryLimitExceeded: "Do what the message says, or give the files up: it is tried once an hour only.",
};

export function remedyOf(reason: string | undefined): string | undefined {
  return reason === undefined ? undefined : remedies[reason];
}
