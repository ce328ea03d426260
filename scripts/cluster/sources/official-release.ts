import { chmodSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { PROGRAMS } from "../programs.ts";
import { type BinariesSource, KUBERNETES_VERSION, withProgress } from "./binaries-source.ts";
import { download } from "./download.ts";
import { isProgram } from "./find-on-path.ts";

export interface OfficialReleaseOptions {
  /** Where the releases are. @default https://dl.k8s.io/release */
  baseUrl?: string;
  version?: string;
  /** How long the first answer may take. @default 4000 */
  reachMs?: number;
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** The programs that the Kubernetes project publishes, with their SHA-256. etcd is not among them. */
export function officialReleaseSource(options: OfficialReleaseOptions = {}): BinariesSource {
  const { baseUrl = "https://dl.k8s.io/release", version = KUBERNETES_VERSION, reachMs = 4000 } = options;
  return {
    name: "official-release",
    takesLong: true,
    async find({ binariesFolder, log }) {
      const architecture = ARCHITECTURES[process.arch];
      if (architecture === undefined) return { because: `there is none for ${process.arch}` };
      const url = `${baseUrl}/${version}/bin/linux/${architecture}`;
      const names = PROGRAMS.filter((name) => name !== "etcd");
      let checksums: Map<string, string>;
      try {
        checksums = new Map(
          await Promise.all(names.map(async (name) => [name, await fetchChecksum(`${url}/${name}`, reachMs)] as const)),
        );
      } catch (error) {
        return { because: `${new URL(baseUrl).host} cannot be reached: ${reason(error)}` };
      }
      const folder = join(binariesFolder, `official-release-${version}`);
      const unfinished = `${folder}.unfinished`;
      mkdirSync(unfinished, { recursive: true });
      log(`fetching Kubernetes ${version} from ${new URL(baseUrl).host}`);
      const bytes = new Map<string, number>();
      await withProgress(log, async (update) => {
        const fetchOne = async (name: (typeof names)[number]): Promise<void> => {
          const path = join(unfinished, name);
          const onBytes = (count: number): void => {
            bytes.set(name, count);
            update(`fetched ${Math.round([...bytes.values()].reduce((sum, one) => sum + one, 0) / 1e6)} MB`);
          };
          if (!isProgram(path)) {
            await download({ url: `${url}/${name}`, path, sha256: checksums.get(name) as string, onBytes });
          }
          chmodSync(path, 0o755);
        };
        await Promise.all(names.map(fetchOne));
      });
      renameSync(unfinished, folder);
      return { folder, version };
    },
  };
}

async function fetchChecksum(url: string, reachMs: number): Promise<string> {
  const response = await fetch(`${url}.sha256`, { signal: AbortSignal.timeout(reachMs) });
  const checksum = (await response.text()).trim().split(/\s/)[0] ?? "";
  if (!response.ok) throw new Error(`status ${response.status} for ${url}.sha256`);
  if (!/^[0-9a-f]{64}$/.test(checksum)) throw new Error(`no checksum in ${url}.sha256`);
  return checksum;
}

function reason(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message : message;
}
