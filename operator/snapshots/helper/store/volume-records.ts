import { mkdir, readdir, readFile, rm, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
import { hoursBetween, isUsageHour, type UsageHour } from "../../../../crds/usage/usage-hour.ts";
import { isBatchName, MOST_BATCH_BYTES, type UsageBatch, type UsageMark } from "../../../../crds/usage/usage-store.ts";
import type { Turns } from "./turns.ts";
import { ifThere, replaceFile, syncFolders } from "./volume-files.ts";

/** No tenant id begins with a dot, so this folder never looks like a tenant's. */
export const RECORDS_FOLDER = ".usage";
const UNTIL = "until";
const MOST_HOURS = 24;

/** Batches of usage records on the snapshots volume: `.usage/<hour>/<batch>.ndjson`. */
export interface VolumeRecords {
  /** @throws TypeError if the hour or the name is not valid, or there are too many bytes */
  addRecords(batch: UsageBatch): Promise<void>;
  /** The batches of at most 24 hours, one after the other. If one was changed since they were listed, reading fails. */
  openRecords(range: { from: string; to: string }): Promise<{ sizeBytes: number; content: AsyncIterable<Buffer> }>;
  hours(): Promise<UsageHour[]>;
  batches(hour: string): Promise<string[]>;
  dropRecords(batches: { hour: string; names: readonly string[] }): Promise<void>;
  recordedUntil(): Promise<UsageHour | undefined>;
  setRecordedUntil(hour: string): Promise<void>;
  mark(name: UsageMark): Promise<UsageHour | undefined>;
  setMark(name: UsageMark, hour: string): Promise<void>;
}

export function createVolumeRecords({ root, turns }: { root: string; turns: Turns }): VolumeRecords {
  const top = join(root, RECORDS_FOLDER);

  /** Writes a file under a temporary name, syncs it, and renames it. */
  async function write(folder: string, name: string, text: string): Promise<void> {
    // A volume that is not mounted must not look like an empty one.
    await stat(root);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await replaceFile(join(folder, name), text, { partial: join(folder, `.${name}.partial`), flag: "w" });
    await syncFolders(...new Set([folder, top, root]));
  }

  async function readHour(name: string): Promise<UsageHour | undefined> {
    const text = await ifThere(readFile(join(top, name), "utf8"));
    const hour = text?.trim() ?? "";
    return isUsageHour(hour) ? hour : undefined;
  }

  async function writeHour(name: string, hour: string): Promise<void> {
    checkHour(hour);
    await turns.take(`${RECORDS_FOLDER}/${name}`, () => write(top, name, `${hour}\n`));
  }

  return {
    async addRecords({ hour, name, lines }) {
      checkHour(hour);
      checkName(name);
      if (lines.length > MOST_BATCH_BYTES) throw new TypeError(`Cannot add records: over ${MOST_BATCH_BYTES} bytes`);
      if (!lines.endsWith("\n")) throw new TypeError("Cannot add records: the last line has no end");
      await turns.take(`${RECORDS_FOLDER}/${hour}/${name}`, () => write(join(top, hour), `${name}.ndjson`, lines));
    },

    async openRecords({ from, to }) {
      checkHour(from);
      checkHour(to);
      const hours = [...hoursBetween(from, to)];
      if (hours.length > MOST_HOURS) throw new TypeError(`Cannot read records: more than ${MOST_HOURS} hours`);
      const files: RecordsFile[] = [];
      for (const hour of hours) files.push(...(await filesIn(join(top, hour))));
      return { sizeBytes: files.reduce((sum, { size }) => sum + size, 0), content: contentOf(files) };
    },

    async hours() {
      return ((await ifThere(readdir(top))) ?? []).filter(isUsageHour).sort();
    },

    async batches(hour) {
      checkHour(hour);
      const names = (await ifThere(readdir(join(top, hour)))) ?? [];
      return names.flatMap((name) => /^(.+)\.ndjson$/.exec(name)?.[1] ?? []).filter(isBatchName);
    },

    async dropRecords({ hour, names }) {
      checkHour(hour);
      for (const name of names) checkName(name);
      for (const name of names) await rm(join(top, hour, `${name}.ndjson`), { force: true });
      // Not if it has others.
      await rmdir(join(top, hour)).catch(() => undefined);
    },

    recordedUntil: () => readHour(UNTIL),
    setRecordedUntil: (hour) => writeHour(UNTIL, hour),
    mark: readHour,
    setMark: writeHour,
  };
}

interface RecordsFile {
  readonly path: string;
  readonly size: number;
}

/** The batches in the folder of an hour. */
async function filesIn(folder: string): Promise<RecordsFile[]> {
  for (let gone: string | undefined; ; ) {
    const names = (await ifThere(readdir(folder))) ?? [];
    if (gone !== undefined && names.includes(gone)) {
      throw new StoreError(`Cannot read records: ${gone} is listed but is not there`, { isTransient: true });
    }
    gone = undefined;
    const files: RecordsFile[] = [];
    for (const name of names.filter((one) => one.endsWith(".ndjson")).sort()) {
      const path = join(folder, name);
      const found = await ifThere(stat(path));
      if (found === undefined) {
        gone = name;
        break;
      }
      files.push({ path, size: found.size });
    }
    // A merge deletes batches after it has added their records in others, which only a new list has.
    if (gone === undefined) return files;
  }
}

async function* contentOf(files: readonly RecordsFile[]): AsyncGenerator<Buffer> {
  for (const { path, size } of files) {
    const content = await readFile(path);
    if (content.length !== size) throw new Error(`${path} has changed since it was listed`);
    if (size > 0) yield content;
  }
}

function checkName(name: string): void {
  if (!isBatchName(name)) throw new TypeError(`Cannot use records: "${name}" is not a valid name of a batch`);
}

function checkHour(hour: string): void {
  if (!isUsageHour(hour)) throw new TypeError(`Cannot use records of "${hour}": an hour is like 2026-11-29T14`);
}
