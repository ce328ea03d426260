import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheFolder } from "../cluster/folders.ts";

/** How many seconds each run took when it last passed here, by its label. */
export interface LastSeconds {
  get(label: string): number | undefined;
  /** Stores the times of these runs, in addition to those of other runs. */
  keep(seconds: ReadonlyMap<string, number>): void;
}

/**
 * @param path of a file that need not exist. The default is in the user's cache folder, since the times are those of
 * this machine
 */
export function lastSeconds(path = join(cacheFolder(), "test-seconds.json")): LastSeconds {
  const read = (): Record<string, number> => (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {});
  const known = read();
  return {
    get: (label) => known[label],
    keep(seconds) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(`${path}.${process.pid}`, JSON.stringify({ ...read(), ...Object.fromEntries(seconds) }));
      renameSync(`${path}.${process.pid}`, path);
    },
  };
}
