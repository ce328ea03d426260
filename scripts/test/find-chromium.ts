import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "../cluster/folders.ts";
import { unpackDebianPackages } from "../cluster/images/unpack-debian-packages.ts";
import type { Log } from "../cluster/log.ts";
import { findOnPath } from "../cluster/sources/find-on-path.ts";

/** How a browser without windows is started. */
export interface Chromium {
  readonly program: string;
  readonly flags: readonly string[];
  /** What it needs beside the environment. */
  readonly env: Readonly<Record<string, string>>;
}

// `chromium-common` holds data that the program does not start without.
const PACKAGES = ["chromium-headless-shell", "chromium-common", "fonts-dejavu-core"];

/**
 * Finds the machine's own Chromium, or fetches Debian's, 330 MB, and unpacks it into the cache; nothing is installed.
 *
 * @throws Error when apt cannot fetch it
 */
export async function findChromium({ log }: { log: Log }): Promise<Chromium> {
  // Root needs the first; the machine may have no graphics for the second.
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

/** The package that has one for the whole machine is not unpacked. */
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
