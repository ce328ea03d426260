import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { installDebianPackages } from "../../../../scripts/cluster/debian-packages.ts";
import { runCommand } from "../../../../scripts/cluster/process/run-command.ts";
import { cachedInstall } from "../../../cluster/rest/cached-install.ts";

export const EXAMPLE = join(import.meta.dirname, "../../../../manifests/examples/code-interpreter");

const LIMIT_MS = 480_000;
const servers = join(EXAMPLE, "requirements.txt");
const sdk = join(import.meta.dirname, "requirements.txt");
const modules = join(import.meta.dirname, "sdk.json");

/** What the tests call of `@e2b/code-interpreter`. */
export interface Sandbox {
  runCode(code: string, options?: object): Promise<Execution>;
  createCodeContext(options?: object): Promise<{ id: string; language: string; cwd: string }>;
  listCodeContexts(): Promise<{ id: string }[]>;
  restartCodeContext(context: string): Promise<void>;
  removeCodeContext(context: string): Promise<void>;
}

export interface Execution {
  readonly text?: string;
  readonly results: readonly Readonly<Record<string, unknown>>[];
  readonly logs: { readonly stdout: readonly string[]; readonly stderr: readonly string[] };
  readonly error?: { readonly name: string; readonly value: string; readonly traceback: string };
  readonly executionCount?: number;
}

/** The SDKs, and a Python that can run the server and the SDK. */
export interface Installed {
  readonly python: string;
  readonly Sandbox: new (options: Readonly<Record<string, string>>) => Sandbox;
}

/** Installs the example's packages and the SDKs from PyPI and npm, once for each set of their versions. */
export async function installed(): Promise<Installed> {
  const folder = await cachedInstall("code-interpreter", {
    files: [servers, sdk, modules],
    async install(empty) {
      await installDebianPackages(["python3-venv"], console.log);
      await runCommand("python3", ["-m", "venv", empty], { limitMs: 120_000 });
      const words = ["install", "--quiet", "--disable-pip-version-check", "-r", servers, "-r", sdk];
      await runCommand(join(empty, "bin/pip"), words, { folder: empty, limitMs: LIMIT_MS });
      await runCommand(join(empty, "bin/python"), ["-m", "bash_kernel.install", "--sys-prefix"], { folder: empty });
      copyFileSync(modules, join(empty, "package.json"));
      await runCommand("npm", ["install", "--no-audit", "--no-fund"], { folder: empty, limitMs: LIMIT_MS });
    },
  });
  const entry = join(folder, "node_modules/@e2b/code-interpreter/dist/index.mjs");
  const { Sandbox } = (await import(pathToFileURL(entry).href)) as Pick<Installed, "Sandbox">;
  return { python: join(folder, "bin/python"), Sandbox };
}
