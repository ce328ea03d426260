import { createHash } from "node:crypto";
import type { StoreCall } from "../../crds/snapshots/snapshot-store.ts";
import { HOUR_MS, hourAt, hourStart, type UsageHour } from "../../crds/usage/usage-hour.ts";
import { countedRecord } from "../../crds/usage/usage-record.ts";
import { parseRecord, type UsageStore } from "../../crds/usage/usage-store.ts";

/** So few are read as fast as one. */
const FEW_BATCHES = 8;
const MERGED_BYTES = 2 * 1024 * 1024;
/** In memory at once, and half as much again while they are read: some 50 000 records. */
const MOST_BYTES = 32 * 1024 * 1024;
/** The names that {@link nameOf} makes, and no leader's. */
const MERGED_NAME = /^[0-9a-f]{32}-0$/;

/**
 * Adds the records of an hour's batches again, each id once, in few large ones, and then deletes those batches. A month
 * of 10 000 sessions a day would else be 300 000 objects, which take minutes to read.
 *
 * A record that is in two batches counts once, so it does not matter where this is interrupted, or whether two leaders
 * do it. Large batches are named by what is in them: a repetition adds the same ones, also if a store deletes nothing.
 * What is added while this runs is in a batch that stays.
 *
 * @param options.mostBytes of records in memory at once; an hour with more is read several times. @default 32 MiB
 */
export async function mergeBatches(
  hour: UsageHour,
  { store, call, mostBytes = MOST_BYTES }: { store: UsageStore; call: StoreCall; mostBytes?: number },
): Promise<void> {
  // Listed before they are read: each of these is read.
  const names = await store.batches(hour, call);
  if (names.filter((name) => !MERGED_NAME.test(name)).length <= FEW_BATCHES) return;
  const added = new Set<string>();
  let merged: string[] = [];
  let bytes = 0;

  async function add(): Promise<void> {
    if (merged.length === 0) return;
    const lines = merged.join("");
    const name = nameOf(hour, lines);
    await store.append({ hour, name, lines }, call);
    added.add(name);
    merged = [];
    bytes = 0;
  }

  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await readPage(hour, { store, call, mostBytes, after });
    for (const line of page.lines) {
      const text = `${line}\n`;
      if (bytes + Buffer.byteLength(text) > MERGED_BYTES) await add();
      merged.push(text);
      bytes += Buffer.byteLength(text);
    }
    after = page.next;
  }
  await add();
  await store.drop({ hour, names: names.filter((name) => !added.has(name)) }, call);
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
