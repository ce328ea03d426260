import { hash, randomBytes } from "node:crypto";
/** The last records of this process, as lines. */
export interface AuditMemory {
  /** @param actor identifies who made the request */
  add(line: string, actor: string): void;
  /** The lines with an id below `before`, newest first. Ids increase with each added line. */
  newest(before?: number): readonly { readonly id: number; readonly line: string }[];
  /** When the newest line that was dropped had been added, in milliseconds since the epoch; at first the start. */
  completeSince(): number;
}

const MAX_LINES = 10_000;
const MAX_BYTES = 8 * 1024 * 1024;
/** Actors share these, so that finding the one with the most lines costs the same for any number of actors. */
const SHARES = 256;

interface Kept {
  readonly id: number;
  readonly line: string;
  readonly addedAt: number;
}

/**
 * Keeps 10 000 lines, and at most 8 MiB of them. Beyond that the oldest line of the actor with the most text is
 * dropped (docs/decisions/audit-log.md#the-oldest-record-of-the-actor-with-the-most-goes-first).
 *
 * @param options.now milliseconds since the epoch
 */
export function createAuditMemory(options: {
  now: () => number;
  /** @default 10000 */
  maxLines?: number;
  /** @default 8 MiB */
  maxBytes?: number;
}): AuditMemory {
  const { now, maxLines = MAX_LINES, maxBytes = MAX_BYTES } = options;
  const shares = Array.from({ length: SHARES }, () => ({ kept: [] as (Kept | undefined)[], first: 0, bytes: 0 }));
  /** So that no actor can choose an id that shares with another one's. */
  const salt = randomBytes(16).toString("hex");
  let lines = 0;
  let bytes = 0;
  let lastId = 0;
  let completeSince = now();

  function shareOf(actor: string): number {
    return Number.parseInt(hash("sha256", salt + actor).slice(0, 8), 16) % SHARES;
  }

  function dropOne(): void {
    const most = shares.reduce((a, b) => (b.bytes > a.bytes ? b : a));
    const dropped = most.kept[most.first];
    if (dropped === undefined) return;
    most.kept[most.first] = undefined;
    most.first += 1;
    if (most.first > 64 && most.first * 2 > most.kept.length) {
      most.kept = most.kept.slice(most.first);
      most.first = 0;
    }
    lines -= 1;
    bytes -= dropped.line.length;
    most.bytes -= dropped.line.length;
    completeSince = Math.max(completeSince, dropped.addedAt);
  }

  return {
    add(line, actor) {
      const share = shares[shareOf(actor)];
      if (share === undefined) return;
      lastId += 1;
      share.kept.push({ id: lastId, line, addedAt: now() });
      share.bytes += line.length;
      lines += 1;
      bytes += line.length;
      while (lines > maxLines || bytes > maxBytes) dropOne();
    },
    newest(before = Number.POSITIVE_INFINITY) {
      const found = shares.flatMap(({ kept }) =>
        kept.flatMap((one) => (one !== undefined && one.id < before ? [one] : [])),
      );
      return found.sort((a, b) => b.id - a.id);
    },
    completeSince: () => completeSince,
  };
}
