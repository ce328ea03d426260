import { QuotaError } from "../../crds/snapshots/snapshot-store.ts";
import { areSameFiles, listQuietFiles, type QuietFiles } from "./quiet-files.ts";
import type { ListOptions } from "./unchanged-files.ts";

/** No archive takes less. */
const SMALLEST_BYTES = 1;

/** Which pods' archives were more than a quota allows, so that the same one is not sent again to be refused. */
export interface RefusedSaves {
  /**
   * Begins a save: what its archive takes at least. Only of a pod whose save was refused are the files listed.
   *
   * @param uid of the pod
   */
  begin(uid: string, options: ListOptions): Promise<RefusableSave>;
  forget(uid: string): void;
}

export interface RefusableSave {
  readonly leastBytes: number;
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
    async begin(uid, options) {
      const known = refusals.get(uid);
      const files = known && (await listQuietFiles(options));
      const isSame = known?.files !== undefined && files !== undefined && areSameFiles(known.files, files);
      let sizeBytes = 0;
      const count: CountBytes = async function* (archive) {
        for await (const piece of archive) {
          sizeBytes += piece.length;
          yield piece;
        }
      };
      return {
        leastBytes: isSame ? known.sizeBytes : SMALLEST_BYTES,
        async run(save) {
          try {
            const saved = await save(count);
            refusals.delete(uid);
            return saved;
          } catch (error) {
            if (error instanceof QuotaError) refusals.set(uid, { sizeBytes, files });
            throw error;
          }
        },
      };
    },
    forget: (uid) => void refusals.delete(uid),
  };
}
