import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "../cluster/folders.ts";
import { unpackDebianPackages } from "../cluster/images/unpack-debian-packages.ts";
import type { Log } from "../cluster/log.ts";
import { findOnPath } from "../cluster/sources/find-on-path.ts";

/** How to start a browser without windows. */
export interface Chromium {
  readonly program: string;
  readonly flags: readonly string[];
  /** Additional environment variables. */
  readonly env: Readonly<Record<string, string>>;
}

// `chromium-common` has data without which the program does not start.
const PACKAGES = ["chromium-headless-shell", "chromium-common", "fonts-dejavu-core"];

/**
 * Finds the machine's own Chromium. If there is none, fetches Debian's (330 MB) and unpacks it into the cache; nothing
 * is installed.
 *
 * @throws Error if apt cannot fetch it
 */
export async function findChromium({ log }: { log: Log }): Promise<Chromium> {
  // Root needs the first option. The second is for machines without graphics.
  const flags = ["--no-sandbox", "--disable-gpu"];
  const own = findOnPath("chromium");
  if (own !== undefined) return { program: own, flags, env: {} };
  const root = await unpackDebianPackages(PACKAGES, { name: "chromium", log });
  const libraries = readdirSync(join(root, "usr/lib")).find((folder) => folder.endsWith("-linux-gnu"));
  if (libraries === undefined) throw new Error(`Cannot use ${root}: it holds no libraries of Debian; delete it`);
  const folders = [`usr/lib/${libraries}`, `usr/lib/${libraries}/pulseaudio`, `lib/${libraries}`];
  return {
    program: join(root, "usr/lib/chromium/chromium-headless-shell"),
    flags,
    env: {
      LD_LIBRARY_PATH: folders.map((folder) => join(root, folder)).join(":"),
      FONTCONFIG_FILE: writeFontConfiguration(join(root, "usr/share/fonts")),
    },
  };
}

/** Writes a font configuration, since the package that has one for the whole machine is not unpacked. */
function writeFontConfiguration(fonts: string): string {
  const folder = join(cacheFolder(), "chromium-fonts");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, "fonts.conf");
  writeFileSync(
    path,
    `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>${fonts}</dir><cachedir>${join(folder, "cache")}</cachedir></fontconfig>
`,
  );
  return path;
}
