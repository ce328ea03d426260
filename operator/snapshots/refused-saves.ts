import { QuotaError } from "../../crds/snapshots/snapshot-store.ts";
import { areSameFiles, createQuietFilesReader, type QuietFiles, type QuietFilesReader } from "./pods/quiet-files.ts";

/** No archive takes less. */
const SMALLEST_BYTES = 1;

/** Which pods' archives were more than a quota allows, so that the same one is not sent again to be refused. */
export interface RefusedSaves {
  /** @param uid of the pod */
  begin(uid: string): RefusableSave;
  forget(uid: string): void;
}

export interface RefusableSave {
  /** Is to read the list of the files before they are saved; undefined of a pod whose save was not refused. */
  readonly reader: QuietFilesReader | undefined;
  /** What the archive takes at least, when that list is whole. */
  leastBytes(): number;
  /** Remembers what the save fails with, where that is a quota. @param save has its archive passed on by `count` */
  run<T>(save: (count: CountBytes) => Promise<T>): Promise<T>;
}

export type CountBytes = (archive: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;

interface Refusal {
  readonly sizeBytes: number;
  /** As they were before the archive was made; undefined where that is not known. */
  readonly files: QuietFiles | undefined;
}

export function createRefusedSaves(): RefusedSaves {
  const refusals = new Map<string, Refusal>();

  return {
    begin(uid) {
      const known = refusals.get(uid);
      const reader = known && createQuietFilesReader();
      let files: QuietFiles | undefined;
      let sizeBytes = 0;
      const count: CountBytes = async function* (archive) {
        sizeBytes = 0;
        for await (const piece of archive) {
          sizeBytes += piece.length;
          yield piece;
        }
      };
      return {
        reader,
        leastBytes() {
          files = reader?.files();
          const isSame = known?.files !== undefined && files !== undefined && areSameFiles(known.files, files);
          return isSame ? known.sizeBytes : SMALLEST_BYTES;
        },
        async run(save) {
          try {
            const saved = await save(count);
            refusals.delete(uid);
            return saved;
          } catch (error) {
            if (error instanceof QuotaError && sizeBytes > 0) refusals.set(uid, { sizeBytes, files });
            throw error;
          }
        },
      };
    },
    forget: (uid) => void refusals.delete(uid),
  };
}
