import { QuotaError } from "../../crds/snapshots/snapshot-store.ts";
import { areSameFiles, createQuietFilesReader, type QuietFiles, type QuietFilesReader } from "./pods/quiet-files.ts";

/** The least size of an archive. */
const SMALLEST_BYTES = 1;

/** The pods whose archive exceeded a quota, so that the same archive is not uploaded again only to be refused. */
export interface RefusedSaves {
  /** @param uid of the pod */
  begin(uid: string): RefusableSave;
  forget(uid: string): void;
}

export interface RefusableSave {
  /** Give it the list of the files before the save; undefined if no save of the pod was refused. */
  readonly reader: QuietFilesReader | undefined;
  /** The least size of the archive. Call it once the list is complete. */
  leastBytes(): number;
  /** Runs a save, and stores its refusal by a quota. @param save has to call `note` with the size of its archive */
  run<T>(save: (note: (sizeBytes: number) => void) => Promise<T>): Promise<T>;
}

interface Refusal {
  readonly sizeBytes: number;
  /** The files before the archive was made; undefined if unknown. */
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
      return {
        reader,
        leastBytes() {
          files = reader?.files();
          const isSame = known?.files !== undefined && files !== undefined && areSameFiles(known.files, files);
          return isSame ? known.sizeBytes : SMALLEST_BYTES;
        },
        async run(save) {
          try {
            const saved = await save((bytes) => {
              sizeBytes = bytes;
            });
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
