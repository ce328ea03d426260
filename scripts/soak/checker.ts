import type { Content } from "./cluster/pod-files.ts";
import { type Archive, createFileChecks, type FileChecks } from "./file-checks.ts";
import type { Change } from "./history.ts";
import {
  type Claim,
  type Finding,
  IDLE,
  IDLE_SECONDS,
  type Invariant,
  type Pair,
  type Pod,
  PROXY_IMAGE,
  pairName,
  pairOf,
} from "./objects.ts";
import type { Trace } from "./trace.ts";

export interface Violation {
  readonly invariant: Invariant;
  readonly message: string;
  readonly events: readonly string[];
}

/** What the checker knows about one pod, in etcd's order. */
export interface PodRecord {
  pod: Pod;
  tenant: string | undefined;
  claimUid: string | undefined;
  /** Names all claims that this pod was the instance of while they were Active. */
  readonly handedOutTo: Set<string>;
  /** Why it may end although its claim does not: what was done to it from outside. */
  readonly excuse: () => string | undefined;
  deletingAt: Moment | undefined;
  deletedAt: Moment | undefined;
}

export interface ClaimRecord {
  claim: Claim;
  readonly createdAt: Moment;
  deletingAt: Moment | undefined;
  deletedAt: Moment | undefined;
}

interface Moment {
  readonly revision: number;
  readonly ms: number;
}

export interface Checker extends Pick<FileChecks, "writes" | "onCheckpoint" | "sessionPods"> {
  onChange(change: Change): void;
  /** Called before a tenant writes into its pod, with the current files. */
  found(podUid: string, content: Content): void;
  /** Called before something outside the product ends a pod, or may do so. */
  excuse(podUid: string, why: string): void;
  /** Called before a fault changes the labels or annotations of the pod, which are then restored. */
  edited(podUid: string): void;
  /**
   * Called with a call that releases the pair's claims: claims that exist before its response may end. A call without a
   * response, with status 0, may still take effect.
   */
  whileReleasing(pair: Pair, ask: () => Promise<{ status: number } | undefined>): Promise<void>;
  /** Called after the response to a destroy of the pod: no later claim call may return this pod. */
  destroyed(podUid: string): void;
  /** From that revision on, every pod of a new claim on the workload must have the proxy. Undefined: no longer. */
  fence(workload: string, sinceRevision: number | undefined): void;
  /** Checks the response to a claim call, once everything that it is based on is known. */
  answered(pair: Pair, answer: { instanceId: string; host: string; resume: boolean; calledAtMs: number }): void;
  /** Called after a tenant wrote files. Where its pod may be ending, it is not known whether they are saved. */
  wrote(pair: Pair, podUid: string, content: Content): void;
  archive(pair: Pair): Archive;
  readonly pods: ReadonlyMap<string, PodRecord>;
  readonly claims: ReadonlyMap<string, ClaimRecord>;
  violate(invariant: Invariant, message: string, about: readonly string[]): void;
  readonly violations: readonly Violation[];
  /** How often an invariant was checked. */
  checks(): number;
  files: FileChecks["counts"];
}

/** How long after a pod's end a claim call may still show it: longer than the longest delay of a watch in the soak. */
const SHOWN_AFTER_END_MS = 40_000;
const EVENTS_SHOWN = 25;
/** How long a call without a response may still take effect after it was sent. */
const MAY_STILL_COME_MS = 60_000;
/** How long after a claim's creation the checker may see it. */
const SEEN_LATE_MS = 2000;
/** The API server's times are whole seconds, and the edges know its time with an error of at most a second. */
const ROUNDED_MS = 3000;

/**
 * Checks everything that it is given against the invariants. It relies only on etcd's data and on the files themselves,
 * and shares no code with operator and edge.
 */
export function createChecker(options: {
  trace: Trace;
  contentOf(podUid: string): Content | undefined;
  onViolation(violation: Violation): void;
}): Checker {
  const { trace, contentOf, onViolation } = options;
  const pods = new Map<string, PodRecord>();
  const claims = new Map<string, ClaimRecord>();
  const fences = new Map<string, number>();
  /** By pod uid: what ended it from outside, perhaps before the watch shows the pod at all. */
  const excuses = new Map<string, string>();
  const destroyedAtMs = new Map<string, number>();
  const editedPods = new Set<string>();
  /** By pair: claims that were created before then may end. */
  const releasedUntilMs = new Map<string, number>();
  const violations: Violation[] = [];
  let checks = 0;
  const files = createFileChecks({ check, trace, contentOf });

  function check(holds: boolean, invariant: Invariant, { message, about }: Finding): void {
    checks += 1;
    if (!holds) violate(invariant, message(), about);
  }

  function violate(invariant: Invariant, message: string, about: readonly string[]): void {
    const violation = { invariant, message, events: trace.last(about, EVENTS_SHOWN) };
    trace.note("violation", about, { invariant, message });
    violations.push(violation);
    onViolation(violation);
  }

  function onPod({ type, object: pod, revision }: Change & { kind: "pod" }): void {
    const { uid, name, labels = {}, annotations = {}, deletionTimestamp } = pod.metadata;
    if (labels["tenancy.dev/managed"] !== "true" && !pods.has(uid)) return;
    const moment = { revision, ms: Date.now() };
    const record: PodRecord = pods.get(uid) ?? {
      ...{ pod, tenant: undefined, claimUid: undefined, handedOutTo: new Set<string>() },
      ...{ deletingAt: undefined, deletedAt: undefined, excuse: () => excuses.get(uid) },
    };
    pods.set(uid, record);
    record.pod = pod;
    const tenant = labels["tenancy.dev/tenant"];
    const claimUid = annotations["tenancy.dev/claim-uid"];
    const about = [uid, name, ...(record.claimUid === undefined ? [] : [record.claimUid])];
    trace.note(`pod ${type.toLowerCase()}`, [uid, name, ...(claimUid === undefined ? [] : [claimUid])], {
      ...{ revision, tenant, claimUid, phase: pod.status?.phase, ip: pod.status?.podIP },
      ...{ pool: labels["tenancy.dev/pool"], isDeleting: deletionTimestamp !== undefined },
    });

    const isEdited = editedPods.has(uid);
    if (record.tenant !== undefined && !isEdited) {
      check(tenant === record.tenant && labels["tenancy.dev/pool"] === undefined, "one tenant a pod", {
        message: () =>
          `pod ${name} was tenant ${record.tenant}'s and has tenant ${tenant ?? "none"}, pool ${labels["tenancy.dev/pool"] ?? "none"} now`,
        about,
      });
      check(claimUid === record.claimUid, "one tenant a pod", {
        message: () => `pod ${name} was bound to claim ${record.claimUid} and is bound to ${claimUid ?? "none"} now`,
        about,
      });
    }
    if (!isEdited) {
      record.tenant ??= tenant;
      record.claimUid ??= claimUid;
    }

    const isEnding = type === "DELETED" || deletionTimestamp !== undefined;
    if (isEnding && record.deletingAt === undefined) {
      record.deletingAt = moment;
      onPodEnding(record, about);
    }
    if (type === "DELETED") record.deletedAt = moment;
  }

  function onPodEnding(record: PodRecord, about: readonly string[]): void {
    const { claimUid, pod, handedOutTo } = record;
    const isExcused = record.excuse() !== undefined;
    const claim = claimUid === undefined ? undefined : claims.get(claimUid);
    if (claim === undefined || claimUid === undefined || !handedOutTo.has(claimUid)) return;
    const { status } = claim.claim;
    const isReleased = claim.deletingAt !== undefined;
    check(
      isExcused || isReleased || !(status?.phase === "Active" && status.instanceId === pod.metadata.name),
      "live pod kept",
      { message: () => `pod ${pod.metadata.name} was deleted under its Active claim, which was not released`, about },
    );
    if (!isReleased) return;
    files.onReleased(claim.claim, { podUid: pod.metadata.uid, isExcused, about });
  }

  function onClaim({ type, object: claim, revision }: Change & { kind: "claim" }): void {
    const { uid, name, deletionTimestamp } = claim.metadata;
    const moment = { revision, ms: Date.now() };
    const before = claims.get(uid);
    const record: ClaimRecord = before ?? { claim, createdAt: moment, deletingAt: undefined, deletedAt: undefined };
    const previous = before?.claim.status;
    claims.set(uid, record);
    record.claim = claim;
    files.onClaim(claim);
    const { phase, reason, instanceId, endpoint, source } = claim.status ?? {};
    const pair = pairOf(claim);
    const about = [uid, name, pair];
    trace.note(`claim ${type.toLowerCase()}`, about, {
      ...{ revision, phase, reason, instanceId, host: endpoint?.host, source, resume: claim.spec.resume },
      isDeleting: deletionTimestamp !== undefined,
    });
    if (deletionTimestamp !== undefined || type === "DELETED") {
      if (record.deletingAt === undefined) onClaimEnding(record, about);
      record.deletingAt ??= moment;
    }

    if (previous?.phase === "Active" && phase === "Pending" && record.deletingAt === undefined) {
      const lost = podNamed(previous.instanceId, uid);
      check(lost === undefined || !isLive(lost), "live pod kept", {
        message: () => `claim ${name} took its pod ${previous.instanceId} for lost (${reason}), which is alive`,
        about: [...about, previous.instanceId ?? ""],
      });
    }
    if (reason === "Moved" && previous?.reason === "Moving") {
      const left = podNamed(previous.instanceId, uid);
      if (left !== undefined) files.onMoved(claim, { podUid: left.pod.metadata.uid, about });
    }
    if (type === "DELETED") {
      record.deletedAt = moment;
      for (const pod of pods.values()) {
        if (pod.claimUid !== uid || !pod.handedOutTo.has(uid)) continue;
        check(!isLive(pod), "live pod kept", {
          message: () => `claim ${name} ended while its pod ${pod.pod.metadata.name} lives, whose files were not saved`,
          about: [...about, pod.pod.metadata.name],
        });
      }
      return;
    }
    if (phase !== "Active" || instanceId === undefined) return;
    const isNews = previous?.phase !== "Active" || previous.instanceId !== instanceId;
    const isMoved = previous?.endpoint?.host !== endpoint?.host;
    if ((isNews || isMoved) && endpoint !== undefined) onEndpoint(record, about);
    if (isNews) onHandedOut(record, about);
  }

  /** A claim that no client released may end only for idleness, if its pod's last use is long enough ago. */
  function onClaimEnding({ claim, createdAt }: ClaimRecord, about: readonly string[]): void {
    const { name, deletionTimestamp = "" } = claim.metadata;
    if (createdAt.ms <= (releasedUntilMs.get(pairOf(claim)) ?? 0) + SEEN_LATE_MS) return;
    const isIdle = claim.spec.workloadRef === IDLE && claim.status?.phase === "Active";
    check(isIdle, "live pod kept", {
      message: () => `claim ${name} was deleted in phase ${claim.status?.phase}, which no client asked for`,
      about,
    });
    const pod = podNamed(claim.status?.instanceId, claim.metadata.uid);
    const { "tenancy.dev/last-activity": used, "tenancy.dev/claimed-at": claimed } =
      pod?.pod.metadata.annotations ?? {};
    const idleMs = Date.parse(deletionTimestamp) - Date.parse(used ?? claimed ?? "");
    check(!isIdle || pod === undefined || idleMs >= IDLE_SECONDS * 1000 - ROUNDED_MS, "idle release", {
      message: () => `claim ${name} was released as idle ${idleMs / 1000} s after its pod's last use`,
      about,
    });
  }

  /** An address in a status must be the pod's, and the pod must be the claim's. */
  function onEndpoint({ claim }: ClaimRecord, about: readonly string[]): void {
    const { instanceId, endpoint } = claim.status ?? {};
    const pod = podNamed(instanceId, claim.metadata.uid);
    const known = [...about, instanceId ?? ""];
    check(pod !== undefined && pod.tenant === claim.spec.tenantId, "endpoint is the claim's own", {
      message: () => `claim ${claim.metadata.name} names pod ${instanceId}, which is not bound to it (${pod?.tenant})`,
      about: known,
    });
    const address = pod?.pod.status?.podIP;
    check(pod === undefined || address === endpoint?.host, "endpoint is the claim's own", {
      message: () => `claim ${claim.metadata.name} shows ${endpoint?.host}, and its pod has ${address}`,
      about: known,
    });
  }

  function onHandedOut({ claim, createdAt }: ClaimRecord, about: readonly string[]): void {
    const { uid, name } = claim.metadata;
    const pod = podNamed(claim.status?.instanceId, uid);
    if (pod === undefined) return;
    const podName = pod.pod.metadata.name;
    const known = [...about, podName];
    for (const other of pods.values()) {
      if (other === pod || !other.handedOutTo.has(uid)) continue;
      check(!isLive(other), "one pod a claim", {
        message: () => `claim ${name} got ${podName} while ${other.pod.metadata.name}, which it had got before, lives`,
        about: [...known, other.pod.metadata.name],
      });
    }
    const isFirst = !pod.handedOutTo.has(uid);
    pod.handedOutTo.add(uid);
    const fencedSince = fences.get(claim.spec.workloadRef);
    if (fencedSince !== undefined && createdAt.revision > fencedSince) {
      check(
        pod.pod.spec.containers.some(({ image }) => image === PROXY_IMAGE),
        "newest fence",
        {
          message: () =>
            `claim ${name} was made after ${claim.spec.workloadRef} got an allowlist; ${podName} has no proxy`,
          about: known,
        },
      );
    }
    if (isFirst) files.onHandedOut(claim, { podUid: pod.pod.metadata.uid, about: known });
  }

  function podNamed(name: string | undefined, claimUid: string): PodRecord | undefined {
    let found: PodRecord | undefined;
    for (const record of pods.values())
      if (record.pod.metadata.name === name && record.claimUid === claimUid) found = record;
    return found;
  }

  function isLive({ deletingAt, excuse, pod }: PodRecord): boolean {
    return deletingAt === undefined && excuse() === undefined && pod.status?.phase !== "Failed";
  }

  return {
    pods,
    claims,
    violations,
    violate,
    checks: () => checks,
    ...{ files: files.counts, writes: files.writes, onCheckpoint: files.onCheckpoint },
    sessionPods: files.sessionPods,
    onChange(change) {
      if (change.kind === "pod") onPod(change);
      else onClaim(change);
    },
    found: files.found,
    wrote(pair, podUid, content) {
      if (excuses.has(podUid)) files.mayBeSaved(pair, content);
    },
    excuse(podUid, why) {
      if (excuses.has(podUid)) return;
      excuses.set(podUid, why);
      const record = pods.get(podUid);
      trace.note("excused", [podUid, record?.pod.metadata.name ?? "", record?.claimUid ?? ""], { why });
    },
    edited(podUid) {
      editedPods.add(podUid);
      trace.note("edited", [podUid, pods.get(podUid)?.pod.metadata.name ?? ""]);
    },
    async whileReleasing(pair, ask) {
      const name = pairName(pair);
      releasedUntilMs.set(name, Number.POSITIVE_INFINITY);
      const answer = await ask();
      releasedUntilMs.set(name, Date.now() + (answer?.status === 0 ? MAY_STILL_COME_MS : 0));
    },
    destroyed(podUid) {
      if (!destroyedAtMs.has(podUid)) destroyedAtMs.set(podUid, Date.now());
    },
    fence(workload, sinceRevision) {
      if (sinceRevision === undefined) fences.delete(workload);
      else fences.set(workload, sinceRevision);
      trace.note("fence", [workload], { sinceRevision });
    },
    answered(pair, { instanceId, host, resume, calledAtMs }) {
      const name = pairName(pair);
      const about = [name, instanceId];
      const own = [...pods.values()].filter(({ pod }) => pod.metadata.name === instanceId).at(-1);
      check(own?.tenant === pair.tenantId, "endpoint is the claim's own", {
        message: () => `${name} was answered pod ${instanceId}, which belongs to ${own?.tenant ?? "no tenant"}`,
        about,
      });
      const endedMs = own?.deletingAt?.ms;
      const isOld = endedMs !== undefined && calledAtMs - endedMs > SHOWN_AFTER_END_MS;
      check(!isOld, "endpoint is the claim's own", {
        message: () =>
          `${name} was answered pod ${instanceId}, which had ended ${calledAtMs - (endedMs ?? 0)} ms before`,
        about,
      });
      const destroyedMs = destroyedAtMs.get(own?.pod.metadata.uid ?? "") ?? Number.POSITIVE_INFINITY;
      check(destroyedMs >= calledAtMs, "endpoint is the claim's own", {
        message: () =>
          `${name} was answered pod ${instanceId}, which it had destroyed ${calledAtMs - destroyedMs} ms before`,
        about,
      });
      const holder = [...pods.values()].find((one) => isLive(one) && one.pod.status?.podIP === host);
      const isMine = holder === undefined || holder.tenant === pair.tenantId;
      // A pod that ended after the call began may still have had the address when the response was created.
      const wasMine = own !== undefined && (endedMs === undefined || endedMs > calledAtMs - 1000);
      check(isMine || wasMine, "endpoint is the claim's own", {
        message: () => `${name} was answered ${host}, the address of ${holder?.pod.metadata.name} of ${holder?.tenant}`,
        about: [...about, holder?.pod.metadata.name ?? ""],
      });
      const claim = own?.claimUid === undefined ? undefined : claims.get(own.claimUid)?.claim;
      if (own !== undefined && resume && claim !== undefined && claim.spec.resume !== true)
        files.onAnswered(pair, { podUid: own.pod.metadata.uid, about });
    },
    archive: files.archive,
  };
}
