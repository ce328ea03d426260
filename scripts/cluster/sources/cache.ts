import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { PROGRAMS } from "../programs.ts";
import type { BinariesSource } from "./binaries-source.ts";
import { isProgram } from "./find-on-path.ts";

const SET = /^(official-release|go-modules|debian-source)-(v\d+\.\d+\.\d+)$/;

/**
 * What an earlier run fetched or built; the newest complete set.
 *
 * @param source name of the source that it must have come from
 */
export function cacheSource(source?: string): BinariesSource {
  return {
    name: "cache",
    takesLong: false,
    async find({ binariesFolder }) {
      if (!existsSync(binariesFolder)) return { because: `nothing in ${binariesFolder}` };
      const sets = readdirSync(binariesFolder).flatMap((entry) => {
        const [, from, version] = SET.exec(entry) ?? [];
        const folder = join(binariesFolder, entry);
        const wanted = version !== undefined && (source === undefined || from === source) && isComplete(folder);
        return wanted ? [{ folder, version }] : [];
      });
      sets.sort((a, b) => b.version.localeCompare(a.version, "en", { numeric: true }));
      return sets[0] ?? { because: `no complete set in ${binariesFolder}` };
    },
  };
}

function isComplete(folder: string): boolean {
  return PROGRAMS.every((name) => name === "etcd" || name === "kubectl" || isProgram(join(folder, name)));
}
