import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

export const runtimes = ["node", "bun", "deno"] as const;
export type Runtime = (typeof runtimes)[number];

/** A folder of `test/`. */
export const kindNames = ["unit", "cluster", "browser", "e2e"] as const;
export type Kind = (typeof kindNames)[number];

export interface TestFile {
  kind: Kind;
  /** The path from the project's root. */
  path: string;
  runtime: Runtime;
  limitSeconds: number;
  /** Whether nothing may run at the same time. */
  isAlone: boolean;
  /** Whether it mostly waits for timers, and computes little. */
  waits: boolean;
  /** Whether it gets no shared control plane, because it starts its own or needs none. */
  hasOwnCluster: boolean;
  /** Why it runs only in `npm run test:long`, if it does. */
  longBecause: string | undefined;
  /** The path, and the runtime unless that is Node. */
  label: string;
}

const root = join(import.meta.dirname, "..", "..");

/**
 * Lists the runs of `test/<kind>/**\/*.test.ts` whose path contains every pattern, one for each runtime. Comments at
 * the top of a file configure it: `// @runtimes bun node deno` (default: `otherwise`), `// @limit 900` (seconds), `//
 * @alone`, `// @waits`, `// @own-cluster` and `// @long REASON`.
 *
 * @throws Error if a comment names an unknown runtime, or a file is long without a reason
 */
export function findTestFiles(options: {
  kind: Kind;
  patterns: readonly string[];
  limitSeconds: number;
  otherwise: Runtime;
}): TestFile[] {
  const folder = join(root, "test", options.kind);
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => relative(root, join(folder, name)))
    .filter((path) => options.patterns.every((pattern) => path.includes(pattern)))
    .sort()
    .flatMap((path) => readRuns(path, options));
}

function readRuns(path: string, options: { kind: Kind; limitSeconds: number; otherwise: Runtime }): TestFile[] {
  const text = readFileSync(join(root, path), "utf8");
  const named = /^\/\/ @runtimes (.+)$/m.exec(text)?.[1]?.trim().split(/\s+/) ?? [options.otherwise];
  const limitSeconds = Number(/^\/\/ @limit (\d+)$/m.exec(text)?.[1] ?? options.limitSeconds);
  const isAlone = /^\/\/ @alone$/m.test(text);
  const waits = /^\/\/ @waits$/m.test(text);
  const hasOwnCluster = /^\/\/ @own-cluster$/m.test(text);
  const long = /^\/\/ @long(.*)$/m.exec(text);
  const longBecause = long?.[1]?.trim();
  if (longBecause === "") throw new Error(`Cannot run ${path}: its @long comment gives no reason`);
  const second = `runs on ${named[0]} before`;
  return named.map((runtime, index) => {
    if (!isRuntime(runtime))
      throw new Error(`Cannot run ${path}: unknown runtime "${runtime}" in its @runtimes comment`);
    const label = runtime === "node" ? path : `${path} on ${runtime}`;
    const because = longBecause ?? (index === 0 ? undefined : second);
    return {
      kind: options.kind,
      path,
      runtime,
      limitSeconds,
      isAlone,
      waits,
      hasOwnCluster,
      longBecause: because,
      label,
    };
  });
}

function isRuntime(name: string): name is Runtime {
  return (runtimes as readonly string[]).includes(name);
}
