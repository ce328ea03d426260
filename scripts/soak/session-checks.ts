import { type Content, EMPTY } from "./cluster/pod-files.ts";
import { type Claim, type Finding, type Invariant, type Pair, pairName, pairOf } from "./objects.ts";

/** Compares the files of a session's pods, one after the other, with its checkpoints. */
export interface SessionChecks {
  /** Called at the moment at which a tenant writes files. */
  writes(pair: Pair, podUid: string, content: Content): void;
  onClaim(claim: Claim): void;
  /**
   * Called with a checkpoint that the store has. Everything that the API server had accepted by then has to be known.
   */
  onCheckpoint(pair: Pair, content: Content, isNew: boolean): void;
  /** Whether the claim's next pod has to have files of the session, as far as there is a checkpoint. */
  goesOn(claim: Claim): boolean;
  /** Whether files are those that the session began with or wrote, and not older than its last completed checkpoint. */
  mayHave(claim: Claim, content: Content): boolean;
  /** Whether a checkpoint of the session was completed while it had its last pod or one before. */
  hasCheckpoint(claim: Claim): boolean;
  /** Whether files were written in a session of the claim that was given up. */
  isGivenUp(claim: Claim, content: Content): boolean;
  /** Whether one session wrote both, in this order. */
  isLater(earlier: Content, later: Content): boolean;
  /**
   * Called with each pod that the claim is given.
   *
   * @param given.content of the pod before its tenant wrote; undefined if that is not known
   */
  onHandedOut(claim: Claim, given: { podUid: string; content: Content | undefined }): void;
  /** The uids of the pods of sessions that have a checkpoint, or have none yet. */
  sessionPods(which: { hasCheckpoint: boolean }): string[];
  counts(): { checkpoints: number; goneOn: number };
}

/** All pods of a claim, until one is destroyed on request. */
interface Session {
  readonly pair: string;
  /** What its first pod began with. */
  readonly began: Content | undefined;
  readonly podUids: Set<string>;
  /** The pod that it has now. */
  podName: string | undefined;
  podUid: string | undefined;
  /** Whether it is known to have that pod still. */
  isActive: boolean;
  isGivenUp: boolean;
  /** The least number of what its next pod may have. */
  least: number;
}

interface Write {
  readonly pair: string;
  readonly podUid: string;
  /** Later writes have higher numbers, from 1. */
  readonly number: number;
}

export function createSessionChecks(options: {
  check(holds: boolean, invariant: Invariant, finding: Finding): void;
}): SessionChecks {
  const { check } = options;
  const writes = new Map<Content, Write>();
  /** By the claim's uid. */
  const sessions = new Map<string, Session>();
  const counts = { checkpoints: 0, goneOn: 0 };

  function sessionOf(claim: Claim): Session | undefined {
    return sessions.get(claim.metadata.uid);
  }

  /** The number of what the session wrote, 0 of what it began with; undefined if it never had it. */
  function numberOf(session: Session, content: Content): number | undefined {
    const write = writes.get(content);
    if (write !== undefined && session.podUids.has(write.podUid)) return write.number;
    return content === session.began ? 0 : undefined;
  }

  return {
    writes(pair, podUid, content) {
      writes.set(content, { pair: pairName(pair), podUid, number: writes.size + 1 });
    },
    onClaim(claim) {
      const session = sessionOf(claim);
      const { phase, instanceId } = claim.status ?? {};
      if (session === undefined) return;
      session.isActive = phase === "Active" && instanceId === session.podName;
      // A claim that names no pod, or another, has gone on without the one that was destroyed.
      const destroyed = claim.metadata.annotations?.["tenancy.dev/destroyed"];
      if (session.isActive && destroyed === instanceId) session.isGivenUp = true;
    },
    onCheckpoint(pair, content, isNew) {
      const name = pairName(pair);
      const write = writes.get(content);
      if (isNew) {
        counts.checkpoints += 1;
        check(content === EMPTY || write?.pair === name, "last checkpoint", {
          message: () => `the store has a checkpoint of ${name} with ${JSON.stringify(content)}, which it never wrote`,
          about: [name],
        });
      }
      for (const session of sessions.values()) {
        if (session.pair !== name || !session.isActive || session.isGivenUp) continue;
        session.least = Math.max(session.least, numberOf(session, content) ?? 0);
      }
    },
    goesOn(claim) {
      const session = sessionOf(claim);
      return session !== undefined && !session.isGivenUp;
    },
    mayHave(claim, content) {
      const session = sessionOf(claim);
      if (session?.began === undefined) return true;
      return (numberOf(session, content) ?? -1) >= session.least;
    },
    hasCheckpoint: (claim) => (sessionOf(claim)?.least ?? 0) > 0,
    isGivenUp(claim, content) {
      const session = sessionOf(claim);
      const { podUid } = writes.get(content) ?? {};
      return session?.isGivenUp === true && podUid !== undefined && session.podUids.has(podUid);
    },
    isLater(earlier, later) {
      for (const session of sessions.values()) {
        const [first, second] = [numberOf(session, earlier), numberOf(session, later)];
        if (first !== undefined && second !== undefined && first < second) return true;
      }
      return false;
    },
    onHandedOut(claim, { podUid, content }) {
      const before = sessionOf(claim);
      const goesOn = before !== undefined && !before.isGivenUp;
      const session = goesOn ? before : begun(pairOf(claim), content);
      sessions.set(claim.metadata.uid, session);
      if (goesOn && content !== undefined) {
        const number = numberOf(session, content) ?? 0;
        if (number > 0) counts.goneOn += 1;
        session.least = Math.max(session.least, number);
      }
      session.podUids.add(podUid);
      session.podUid = podUid;
      session.podName = claim.status?.instanceId;
      session.isActive = true;
    },
    sessionPods: ({ hasCheckpoint }) =>
      [...sessions.values()]
        .filter(({ isActive, least }) => isActive && least > 0 === hasCheckpoint)
        .flatMap(({ podUid }) => podUid ?? []),
    counts: () => counts,
  };
}

function begun(pair: string, began: Content | undefined): Session {
  const noPod = { podUids: new Set<string>(), podName: undefined, podUid: undefined };
  return { ...{ pair, began, ...noPod }, isActive: false, isGivenUp: false, least: 0 };
}
