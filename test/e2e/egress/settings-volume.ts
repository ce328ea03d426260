import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface SettingsVolume {
  /**
   * Returns when it was done, in clock ticks since the machine's start. Whoever looked before that sees a change once more afterwards, since
   * the old folder goes last.
   */
  write(files: Readonly<Record<string, string>>): number;
}

/** A folder that changes as the kubelet changes a projected volume: all at once, by renaming one link. */
export function createSettingsVolume(folder: string): SettingsVolume {
  let version = 0;
  return {
    write(files) {
      version += 1;
      const data = `..2026_01_01_00_00_00.${version}`;
      for (const [path, content] of Object.entries(files)) {
        const file = join(folder, data, path);
        mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
        writeFileSync(file, content, { mode: 0o444 });
      }
      symlinkSync(data, join(folder, "..data_tmp"));
      renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
      const doneAt = Math.round(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 100);
      const tops = new Set(Object.keys(files).map((path) => path.split("/")[0] ?? path));
      for (const entry of readdirSync(folder)) {
        const isOld = entry.startsWith("..2") && entry !== data;
        if (isOld || (!entry.startsWith("..") && !tops.has(entry))) rmSync(join(folder, entry), { recursive: true });
      }
      const present = new Set(readdirSync(folder));
      for (const top of tops) if (!present.has(top)) symlinkSync(join("..data", top), join(folder, top));
      return doneAt;
    },
  };
}
