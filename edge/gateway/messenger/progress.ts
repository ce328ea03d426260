import { type BotUpdate, readUpdate, toUpdate, type UnusableUpdate } from "./read-update.ts";
import type { CarriedUpdate, PendingReply, SavedState } from "./saved-state.ts";
import type { MessageIds } from "./sent-messages.ts";

/** Limit of the texts of replies, in bytes of JSON, within the state's 64 KiB. */
const MAX_PARTS_BYTES = 32 * 1024;
/** Limit of the contents of updates that are confirmed to the server but not answered. */
const MAX_CARRIED_BYTES = 10 * 1024;
const MAX_CARRIED = 50;
/** Updates are carried until no more than this many are held. */
const FEW_HELD = 50;
/** Telegram restarts the numbering after a week without updates (https://core.telegram.org/bots/api#update). */
const RENUMBERED_AFTER_SECONDS = 6 * 86_400;

/** The new updates of a poll's answer. */
export interface Admitted {
  /** In the order of the server, and so of each chat. */
  readonly updates: readonly BotUpdate[];
  /** Cannot be answered; count as answered. */
  readonly unusable: readonly UnusableUpdate[];
}

/**
 * The updates that are answered, and the progress of the others
 * (docs/decisions/messenger.md#a-reply-is-announced-before-it-is-sent).
 */
export interface Progress {
  /** All updates below it are answered or carried, so that it may be confirmed to the server once it is written. */
  readonly offset: number | undefined;
  /**
   * Number of held updates: unanswered ones, and answered ones that the offset cannot move past yet; without carried
   * ones.
   */
  readonly held: number;
  /** Number of unanswered updates without carried ones. */
  readonly open: number;
  /** Updates that an earlier session carried, in order: the server no longer has them. */
  readonly resumed: readonly BotUpdate[];
  /** Adds the server's response for the offset `asked`; `complete`: the server has no more. */
  admit(
    batch: readonly (BotUpdate | UnusableUpdate)[],
    options: { asked: number | undefined; complete: boolean; nowSeconds: number },
  ): Admitted;
  /**
   * Moves the oldest unanswered updates into the state, so that the offset moves past them and others find room
   * (docs/decisions/messenger.md#unanswered-updates-stay-on-the-server).
   *
   * @returns whether at least one fitted
   */
  carry(): boolean;
  /** The update needs no more work. */
  answer(updateId: number): void;
  reply(updateId: number): PendingReply | undefined;
  setReply(reply: PendingReply): void;
  save(): SavedState;
}

export function createProgress(options: {
  bot: string;
  holder: string;
  saved: SavedState | undefined;
  messageIds: MessageIds;
}): Progress {
  const { bot, holder, saved, messageIds } = options;
  const open = new Map<number, BotUpdate>();
  const carried = new Map<number, CarriedUpdate>();
  for (const entry of saved?.carried ?? []) {
    const update = readUpdate(entry.update);
    if ("problem" in update) continue;
    carried.set(update.updateId, entry);
    open.set(update.updateId, { ...update, cut: entry.cut });
  }
  const resumed = [...open.values()].sort((a, b) => a.updateId - b.updateId);
  const answered = new Set(saved?.answered);
  const replies = new Map((saved?.replies ?? []).map((reply) => [reply.update, reply]));
  /** All updates below it are known. */
  let horizon = saved?.offset;
  let newest = saved?.newest ?? 0;

  function offset(): number | undefined {
    const first = Math.min(...[...open.keys()].filter((id) => !carried.has(id)));
    return Number.isFinite(first) ? first : horizon;
  }

  function held(): number {
    return open.size - carried.size + answered.size;
  }

  function prune(): void {
    const end = offset() ?? 0;
    for (const id of answered) if (id < end) answered.delete(id);
    for (const id of replies.keys()) if (id < end && !carried.has(id)) replies.delete(id);
  }

  /** Whether an update below the offset is the first of a new numbering, not a repetition. */
  function isRenumbered(update: BotUpdate | UnusableUpdate, nowSeconds: number): boolean {
    const date = "date" in update ? update.date : undefined;
    return date === undefined ? nowSeconds - newest > RENUMBERED_AFTER_SECONDS : date > newest;
  }

  return {
    get offset() {
      return offset();
    },
    get held() {
      return held();
    },
    get open() {
      return open.size - carried.size;
    },
    resumed,
    admit(batch, { asked, complete, nowSeconds }) {
      const admitted = { updates: [] as BotUpdate[], unusable: [] as UnusableUpdate[] };
      const numbered = batch
        .filter((update) => update.updateId !== undefined)
        .sort((a, b) => (a.updateId ?? 0) - (b.updateId ?? 0));
      admitted.unusable.push(
        ...batch.filter((update): update is UnusableUpdate => update.updateId === undefined && "problem" in update),
      );
      const first = numbered[0];
      if (open.size === 0 && asked !== undefined && first?.updateId !== undefined && first.updateId < asked) {
        const renumbered = numbered.find(
          (update) => (update.updateId ?? asked) < asked && isRenumbered(update, nowSeconds),
        );
        if (renumbered?.updateId !== undefined) {
          horizon = renumbered.updateId;
          answered.clear();
          replies.clear();
        }
      }
      const start = offset() ?? 0;
      for (const update of numbered) {
        const { updateId } = update;
        if (updateId === undefined || updateId < start || open.has(updateId) || answered.has(updateId)) continue;
        if ("problem" in update) {
          admitted.unusable.push(update);
          answered.add(updateId);
          continue;
        }
        newest = Math.max(newest, update.date ?? nowSeconds);
        open.set(updateId, update);
        admitted.updates.push(update);
      }
      const last = numbered.at(-1)?.updateId;
      if (last !== undefined) horizon = Math.max(horizon ?? 0, last + 1);
      // The server has dropped these updates: they cannot be answered, and will not come again.
      if (complete && asked === start) {
        for (const id of replies.keys()) if (!open.has(id)) replies.delete(id);
      }
      prune();
      return admitted;
    },
    carry() {
      const before = carried.size;
      while (held() > FEW_HELD && carried.size < MAX_CARRIED) {
        const update = open.get(offset() ?? -1);
        if (update === undefined) break;
        const bytes = [...carried.values()].reduce((sum, entry) => sum + sizeOf(entry), 0);
        const whole = { update: toUpdate(update), cut: false };
        const fits = bytes + sizeOf(whole) <= MAX_CARRIED_BYTES;
        carried.set(update.updateId, fits ? whole : { update: toUpdate(update, { cut: true }), cut: true });
        prune();
      }
      return carried.size > before;
    },
    answer(updateId) {
      open.delete(updateId);
      carried.delete(updateId);
      replies.delete(updateId);
      answered.add(updateId);
      prune();
    },
    reply: (updateId) => replies.get(updateId),
    setReply(reply) {
      replies.set(reply.update, reply);
    },
    save() {
      return {
        version: 1,
        bot,
        holder,
        ...(offset() !== undefined && { offset: offset() }),
        newest,
        answered: [...answered],
        messages: messageIds.save(),
        replies: withinRoom([...replies.values()]),
        carried: [...carried.values()],
      };
    },
  };
}

function sizeOf(entry: CarriedUpdate): number {
  return Buffer.byteLength(JSON.stringify(entry));
}

/** Leaves out texts that do not fit, those of the longest replies first. */
function withinRoom(replies: readonly PendingReply[]): PendingReply[] {
  let room = MAX_PARTS_BYTES;
  const sized = replies.map((reply) => ({ reply, bytes: Buffer.byteLength(JSON.stringify(reply.parts ?? [])) }));
  const kept = new Set<PendingReply>();
  for (const { reply, bytes } of sized.sort((a, b) => a.bytes - b.bytes)) {
    room -= bytes;
    if (room >= 0) kept.add(reply);
  }
  return replies.map((reply) => (kept.has(reply) ? reply : { ...reply, parts: undefined }));
}
