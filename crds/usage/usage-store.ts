import * as v from "valibot";
import type { StoreCall } from "../snapshots/snapshot-store.ts";
import type { UsageHour } from "./usage-hour.ts";
import { type AnyUsageRecord, snapshotRecordSchema, usageRecordSchema } from "./usage-record.ts";

/** The most bytes of a batch. */
export const MOST_BATCH_BYTES = 4 * 1024 * 1024;

const ofSnapshot = v.object({ kind: v.literal("snapshot") });

/** Names a batch: unique to the process that writes it, or to what is in it. */
const BATCH = /^[0-9a-z]{1,40}-\d{1,12}$/;

/**
 * `snapshots`: up to when the space of archives is recorded; `snapshots-next`: up to when that was decided to be recorded
 * next; `sent`: up to when the sink has all records.
 */
export const usageMarks = ["snapshots", "snapshots-next", "sent"] as const;

export type UsageMark = (typeof usageMarks)[number];

/** Records of one hour that are added together. */
export interface UsageBatch {
  readonly hour: UsageHour;
  /** Lower-case letters and digits, a dash and a number. */
  readonly name: string;
  /** One record a line. At most {@link MOST_BATCH_BYTES}. */
  readonly lines: string;
}

/**
 * The usage records in the snapshots store, beside the archives. A record is only added, and never changed. Every call
 * throws the errors of `SnapshotStore`.
 */
export interface UsageStore {
  /** Adds a batch. When it resolves, the records are on the disk. A repetition with the same name changes nothing. */
  append(batch: UsageBatch, call: StoreCall): Promise<void>;
  /**
   * The records of the hours from one to another, without the second, in the order of hours. A record may occur more
   * than once: see `countedRecord`. The call's time limit includes the reading.
   *
   * @returns some lines at a time
   */
  read(range: { readonly from: UsageHour; readonly to: UsageHour }, call: StoreCall): AsyncIterable<readonly string[]>;
  /** The hours that have batches, sorted. */
  hours(call: StoreCall): Promise<readonly UsageHour[]>;
  /** The names of an hour's batches. */
  batches(hour: UsageHour, call: StoreCall): Promise<readonly string[]>;
  /** Deletes batches whose records were added again in others, or are too old. Missing ones are ignored. */
  drop(batches: { readonly hour: UsageHour; readonly names: readonly string[] }, call: StoreCall): Promise<void>;
  /** The hour up to which running sessions are recorded; undefined before the first {@link setRecordedUntil}. */
  recordedUntil(call: StoreCall): Promise<UsageHour | undefined>;
  setRecordedUntil(hour: UsageHour, call: StoreCall): Promise<void>;
  /** As {@link recordedUntil}, for other records. */
  mark(name: UsageMark, call: StoreCall): Promise<UsageHour | undefined>;
  setMark(name: UsageMark, hour: UsageHour, call: StoreCall): Promise<void>;
}

export function isBatchName(name: string): boolean {
  return BATCH.test(name);
}

/** The record in a line; undefined for one of a kind that this version does not know. */
export function parseRecord(line: string): AnyUsageRecord | undefined {
  const json = parseJson(line);
  const parsed = v.is(ofSnapshot, json)
    ? v.safeParse(snapshotRecordSchema, json)
    : v.safeParse(usageRecordSchema, json);
  return parsed.success ? parsed.output : undefined;
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Cuts text that arrives in pieces into lines. An unfinished last line is dropped: no batch ends with one. */
export async function* linesOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string[]> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of pieces) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (lines.length > 0) yield lines;
  }
}
