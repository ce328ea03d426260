import { configMaps } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import { BUILDKIT_CONFIG } from "../builds/render-build.ts";
import type { BuildConfig } from "../config.ts";

/** How one registry is reached. */
export interface RegistrySettings {
  /** `host[:port][/path]`, asked before the registry itself. */
  readonly mirrors: readonly string[];
  /** Whether it speaks plain HTTP. */
  readonly isPlain: boolean;
  /** Whether its certificate is not checked. */
  readonly isInsecure: boolean;
  /** PEM of authorities that are trusted beside the public ones. */
  readonly authorities: readonly string[];
}

/** By the registry's `host[:port]` as image references have it. */
export type SettingsByHost = ReadonlyMap<string, RegistrySettings>;

/** Where builds see the ConfigMap as files. */
const FOLDER = "/config/";

/** Reads the settings that builds use for registries; none without builds. */
export async function readRegistrySettings(
  cluster: Cluster,
  { builds, signal }: { builds: BuildConfig | undefined; signal: AbortSignal },
): Promise<SettingsByHost> {
  if (builds === undefined) return new Map();
  const found = await cluster(configMaps).in(builds.namespace).named(BUILDKIT_CONFIG).find({ signal });
  const { "buildkitd.toml": toml = "", ...files } = found?.data ?? {};
  return parseRegistrySettings(toml, files);
}

/**
 * Reads the tables `[registry."host"]` of a buildkitd.toml, with the keys `mirrors`, `http`, `insecure` and `ca`.
 *
 * Follows https://github.com/moby/buildkit/blob/v0.26.3/docs/buildkitd.toml.md
 *
 * @param files of the same ConfigMap, by name
 */
export function parseRegistrySettings(toml: string, files: Readonly<Record<string, string>>): SettingsByHost {
  const tables = toml.split(/^(?=[ \t]*\[)/m).flatMap((table) => {
    const [, quoted, literal, bare] =
      /^[ \t]*\[[ \t]*registry[ \t]*\.[ \t]*(?:"([^"]+)"|'([^']+)'|([\w-]+))[ \t]*\]/.exec(table) ?? [];
    const host = quoted ?? literal ?? bare;
    if (host === undefined) return [];
    const authorities = listOf(table, "ca").flatMap((path) => {
      const file = path.startsWith(FOLDER) ? files[path.slice(FOLDER.length)] : undefined;
      return file === undefined ? [] : [file];
    });
    const settings: RegistrySettings = {
      mirrors: listOf(table, "mirrors"),
      isPlain: isSet(table, "http"),
      isInsecure: isSet(table, "insecure"),
      authorities,
    };
    return [[host, settings] as const];
  });
  return new Map(tables);
}

function isSet(table: string, key: "http" | "insecure"): boolean {
  return new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*true\\b`, "m").test(table);
}

function listOf(table: string, key: "ca" | "mirrors"): string[] {
  const [, list = ""] = new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*\\[([^\\]]*)\\]`, "m").exec(table) ?? [];
  const items = list.replace(/#.*/g, "").matchAll(/"([^"]*)"|'([^']*)'/g);
  return [...items].map(([, quoted, literal]) => quoted ?? literal ?? "");
}
