import { createHash } from "node:crypto";
import type { StoreCall } from "../snapshots/snapshot-store.ts";
import { HOUR_MS, hourAt, hourStart, type UsageHour } from "./usage-hour.ts";
import { countedRecord } from "./usage-record.ts";
import { parseRecord, type UsageBatch, type UsageStore } from "./usage-store.ts";

const MERGED_BYTES = 2 * 1024 * 1024;
/** In memory at once, and half as much again while they are read: some 50 000 records. */
const MOST_BYTES = 32 * 1024 * 1024;
/** The names that {@link nameOf} makes, and no leader's. */
const MERGED_NAME = /^[0-9a-f]{32}-0$/;

export interface MergeOptions {
  readonly store: UsageStore;
  readonly call: StoreCall;
  /** Bytes of records in memory at once; an hour with more is read several times. @default 32 MiB */
  readonly mostBytes?: number | undefined;
}

/**
 * The records of an hour, each id once, in few large batches. Their order and their names depend on the records alone,
 * and not on the batches that have them now.
 */
export async function* mergedBatches(
  hour: UsageHour,
  { store, call, mostBytes = MOST_BYTES }: MergeOptions,
): AsyncGenerator<UsageBatch> {
  let merged: string[] = [];
  let bytes = 0;

  function* taken(): Generator<UsageBatch> {
    if (merged.length === 0) return;
    const lines = merged.join("");
    merged = [];
    bytes = 0;
    yield { hour, name: nameOf(hour, lines), lines };
  }

  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await readPage(hour, { store, call, mostBytes, after });
    for (const line of page.lines) {
      const text = `${line}\n`;
      if (bytes + Buffer.byteLength(text) > MERGED_BYTES) yield* taken();
      merged.push(text);
      bytes += Buffer.byteLength(text);
    }
    after = page.next;
  }
  yield* taken();
}

/** Whether it is the name of one of {@link mergedBatches}: two of the same name have the same records. */
export function isMergedName(name: string): boolean {
  return MERGED_NAME.test(name);
}

/**
 * The counted records of an hour in the order of their ids, those after an id, up to a number of bytes. A page does not
 * depend on the order in which they are read.
 */
async function readPage(
  hour: UsageHour,
  options: { store: UsageStore; call: StoreCall; mostBytes: number; after: string },
): Promise<{ lines: string[]; next: string | undefined }> {
  const { store, call, mostBytes, after } = options;
  const byId = new Map<string, string>();
  let bytes = 0;
  /** Greater ids are on later pages; undefined while all fit. */
  let greatest: string | undefined;

  function cut(): void {
    if (bytes <= mostBytes) return;
    let kept = 0;
    let isFull = false;
    for (const [id, line] of [...byId].sort(byKey)) {
      // Each page has a record.
      isFull ||= kept > 0 && kept + Buffer.byteLength(line) > mostBytes;
      if (isFull) byId.delete(id);
      else {
        kept += Buffer.byteLength(line);
        greatest = id;
      }
    }
    bytes = kept;
  }

  for await (const lines of store.read({ from: hour, to: hourAt(hourStart(hour) + HOUR_MS) }, call)) {
    for (const piece of lines) {
      const id = parseRecord(piece)?.id ?? piece;
      if (id <= after || (greatest !== undefined && id > greatest)) continue;
      // A copy: a piece of a text keeps all of it in memory.
      const line = Buffer.from(piece).toString("utf8");
      const known = byId.get(id);
      const counted = known === undefined ? line : countedLine(known, line);
      byId.set(id, counted);
      bytes += Buffer.byteLength(counted) - Buffer.byteLength(known ?? "");
    }
    if (bytes > 1.5 * mostBytes) cut();
  }
  cut();
  return { lines: [...byId].sort(byKey).map(([, line]) => line), next: greatest };
}

/** The same line in whichever order the two are read. */
function countedLine(a: string, b: string): string {
  const [first, second] = a <= b ? [a, b] : [b, a];
  const [one, other] = [parseRecord(first), parseRecord(second)];
  return one === undefined || other === undefined || countedRecord(one, other) === one ? first : second;
}

function nameOf(hour: UsageHour, lines: string): string {
  return `${createHash("sha256").update(`${hour}\n${lines}`).digest("hex").slice(0, 32)}-0`;
}

function byKey([a]: [string, string], [b]: [string, string]): number {
  return a < b ? -1 : 1;
}
