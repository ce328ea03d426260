import { type Content, EMPTY } from "./cluster/pod-files.ts";
import { type Claim, type Finding, type Invariant, type Pair, pairName, pairOf } from "./objects.ts";
import { createSessionChecks, type SessionChecks } from "./session-checks.ts";
import type { Trace } from "./trace.ts";

/** What is known about a pair's archive. */
export interface Archive {
  /** The files that the last completed release saved. */
  saved: Content;
  /** The files that disturbed releases may have saved since. */
  readonly perhaps: Set<Content>;
}

/** Where something happened: the pod, and the related names in the trace. */
interface Place {
  readonly podUid: string;
  readonly about: readonly string[];
}

/** Compares the files in pods with those that releases and checkpoints have saved. */
export interface FileChecks extends Pick<SessionChecks, "writes" | "onClaim" | "onCheckpoint" | "sessionPods"> {
  archive(pair: Pair): Archive;
  /** Called with the files in a pod when its tenant got it, before the tenant wrote. */
  found(podUid: string, content: Content): void;
  onReleased(claim: Claim, release: Place & { isExcused: boolean }): void;
  /** Called when a claim says that its session leaves its pod with all its files. */
  onMoved(claim: Claim, place: Place): void;
  /** Called with files that a tenant wrote while its pod may have been ending. */
  mayBeSaved(pair: Pair, content: Content): void;
  /** Called when a claim is Active with a pod for the first time. */
  onHandedOut(claim: Claim, place: Place): void;
  /** Called when a call with `resume` returned the pod of a claim without `resume`. */
  onAnswered(pair: Pair, place: Place): void;
  counts(): FileCounts;
}

export interface FileCounts {
  /** Releases that saved files, and claims that got saved files back. */
  readonly saved: number;
  readonly restored: number;
  /** Checkpoints, and pods that a session went on in with the files of one. */
  readonly checkpoints: number;
  readonly goneOn: number;
}

export function createFileChecks(options: {
  check(holds: boolean, invariant: Invariant, finding: Finding): void;
  trace: Trace;
  contentOf(podUid: string): Content | undefined;
}): FileChecks {
  const { check, trace, contentOf } = options;
  const sessions = createSessionChecks({ check });
  const archives = new Map<string, Archive>();
  /** By pod uid. */
  const found = new Map<string, Content>();
  /** By uid: claims whose next pod has to have what the one before had. */
  const moved = new Set<string>();
  const counts = { saved: 0, restored: 0 };

  function archiveOf(pair: string): Archive {
    const archive = archives.get(pair) ?? { saved: EMPTY, perhaps: new Set() };
    archives.set(pair, archive);
    return archive;
  }

  function checkResumed(pair: string, content: Content, about: readonly string[]): void {
    const archive = archiveOf(pair);
    const { saved } = archive;
    const isSaved = content === saved;
    check(isSaved || archive.perhaps.has(content), "last saved files", {
      message: () => `${pair} resumed and got ${show(content)}; its last completed release saved ${show(saved)}`,
      about: [...about, pair],
    });
    if (content !== EMPTY && (isSaved || archive.perhaps.has(content))) counts.restored += 1;
    if (isSaved) return;
    archive.saved = content;
    archive.perhaps.clear();
  }

  /** The files of a pod that follows a lost one of the same session. */
  function checkGoneOn(claim: Claim, content: Content, about: readonly string[]): void {
    const isOwn = sessions.mayHave(claim, content);
    // Without a checkpoint it gets what it asked for, as its first pod did.
    if (!isOwn && !sessions.hasCheckpoint(claim) && claim.spec.resume === true) {
      checkResumed(pairOf(claim), content, about);
      return;
    }
    check(isOwn, "last checkpoint", {
      message: () =>
        `claim ${claim.metadata.name} lost its pod and got ${show(content)}, which is not of its session or older than its last checkpoint`,
      about,
    });
  }

  function checkBegun(claim: Claim, content: Content, about: readonly string[]): void {
    const { name, uid } = claim.metadata;
    const pair = pairOf(claim);
    const isAsked = claim.spec.resume === true || (moved.has(uid) && sessions.goesOn(claim));
    const { saved, perhaps } = archiveOf(pair);
    const isSaved = isAsked && (content === saved || perhaps.has(content));
    check(isSaved || !sessions.isGivenUp(claim, content), "last checkpoint", {
      message: () => `claim ${name} got ${show(content)}, which was destroyed on request`,
      about,
    });
    if (isAsked) {
      checkResumed(pair, content, about);
      return;
    }
    check(content === EMPTY, "one tenant a pod", {
      message: () => `claim ${name} asked for no files and got ${JSON.stringify(content)}`,
      about,
    });
  }

  return {
    ...{ writes: sessions.writes, onClaim: sessions.onClaim, sessionPods: sessions.sessionPods },
    onCheckpoint(pair, content, isNew) {
      if (isNew) trace.note("checkpoint", [pairName(pair)], { content });
      sessions.onCheckpoint(pair, content, isNew);
    },
    archive: (pair) => archiveOf(pairName(pair)),
    found(podUid, content) {
      if (!found.has(podUid)) found.set(podUid, content);
    },
    onReleased(claim, { podUid, isExcused, about }) {
      const content = contentOf(podUid);
      if (content === undefined) return;
      const archive = archiveOf(pairOf(claim));
      // A session that did not request files and did not write any need not replace the archive.
      const isNothing = content === EMPTY && claim.spec.resume !== true;
      if (isExcused || isNothing) {
        archive.perhaps.add(content);
        return;
      }
      archive.saved = content;
      archive.perhaps.clear();
      if (content !== EMPTY) counts.saved += 1;
      trace.note("saved by release", [...about, pairOf(claim)], { content });
    },
    onMoved(claim, { podUid, about }) {
      const content = contentOf(podUid);
      if (content === undefined) return;
      moved.add(claim.metadata.uid);
      archiveOf(pairOf(claim)).saved = content;
      if (content !== EMPTY) counts.saved += 1;
      trace.note("saved by a move", [...about, pairOf(claim)], { content });
    },
    mayBeSaved(pair, content) {
      archiveOf(pairName(pair)).perhaps.add(content);
    },
    onHandedOut(claim, { podUid, about }) {
      const content = found.get(podUid) ?? contentOf(podUid);
      if (content !== undefined) {
        found.set(podUid, content);
        const goesOn = sessions.goesOn(claim) && !moved.has(claim.metadata.uid);
        trace.note("files at hand-out", [...about, pairOf(claim)], { content, resume: claim.spec.resume, goesOn });
        (goesOn ? checkGoneOn : checkBegun)(claim, content, about);
        moved.delete(claim.metadata.uid);
      }
      sessions.onHandedOut(claim, { podUid, content });
    },
    onAnswered(pair, { podUid, about }) {
      const began = found.get(podUid);
      if (began === undefined) return;
      const name = pairName(pair);
      const { saved } = archiveOf(name);
      check(saved === EMPTY || began === saved || sessions.isLater(saved, began), "last saved files", {
        message: () =>
          `${name} asked for its files and was answered a pod that began with ${show(began)}; saved is ${show(saved)}`,
        about,
      });
    },
    counts: () => ({ ...counts, ...sessions.counts() }),
  };
}

function show(content: Content): string {
  return content === EMPTY ? "nothing" : JSON.stringify(content);
}
