import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Returns the address of the Debian archive that this machine's apt uses, or undefined when it has none. */
export function debianArchive(folder = "/etc/apt"): string | undefined {
  const parts = join(folder, "sources.list.d");
  const files = [
    join(folder, "sources.list"),
    ...(existsSync(parts) ? readdirSync(parts).map((file) => join(parts, file)) : []),
  ];
  for (const file of files) {
    if (!existsSync(file)) continue;
    const lines = readFileSync(file, "utf8").split("\n");
    for (const line of lines) {
      const address = line.startsWith("#") ? undefined : /https?:\/\/\S+\/debian\/?(?=\s|$)/.exec(line)?.[0];
      if (address !== undefined) return address;
    }
  }
  return undefined;
}
