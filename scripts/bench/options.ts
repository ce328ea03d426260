import { parseArgs } from "node:util";

/** The measurements that need real containers, in their order. */
export const REAL_PATHS = [
  "cold",
  "pool+data",
  "cold+data",
  "pool-beside",
  "on-claim",
  "increments",
  "checkpoints",
  "inside",
  "e2b",
] as const;

/** The measurements, in their order. */
export const PATHS = [
  "existing",
  "cold-simulated",
  "pool",
  "pool-burst",
  "refill",
  "pool-rate",
  "scale",
  ...REAL_PATHS,
  "http",
  "http-keys",
  "proxy",
  "ladder",
  "overload",
] as const;

export type PathName = (typeof PATHS)[number];

export const usage = `usage: npm run bench [-- [--only PATH[,PATH]] [--quick] [--json FILE] [--seed NUMBER] [--profile FOLDER]]
       npm run bench -- --compare A.json B.json
  --only PATH[,PATH]  measure these alone: ${PATHS.join(" ")};
                      ladder, the highest rate held, and overload, what is
                      answered beyond it, are measured only if named
  --quick             fewer of each, in less than 50 s; without scale, http, http-keys, proxy
                      and what takes real containers unless --only names them
  --json FILE         write the figures, with every sample, to a file
  --seed NUMBER       other arrival times (default: 1)
  --profile FOLDER    have operator, edge and, on simulated nodes, the API server write CPU profiles
                      there, which slows them down
  --compare           show by how much two reports of --json differ, and what of it is within noise`;

/** Measurements that leave many claims behind, which would influence later ones. */
const NAMED_ONLY: readonly PathName[] = ["ladder", "overload"];

/** Measurements that take too long for a quick run. */
const NOT_QUICK: readonly PathName[] = ["scale", ...REAL_PATHS, "http", "http-keys", "proxy"];

export interface BenchOptions {
  readonly paths: readonly PathName[];
  readonly quick: boolean;
  readonly jsonPath: string | undefined;
  readonly seed: number;
  readonly profileFolder: string | undefined;
  /** Two reports to compare instead of measuring. */
  readonly compare: readonly [string, string] | undefined;
  readonly help: boolean;
}

/**
 * Reads the command line.
 *
 * @throws Error that describes the mistake
 */
export function parseOptions(commandArguments: readonly string[]): BenchOptions {
  const { values, positionals } = parseArgs({
    args: [...commandArguments],
    options: {
      only: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "string" },
      seed: { type: "string", default: "1" },
      profile: { type: "string" },
      compare: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
    allowPositionals: true,
  });
  const [a, b, ...more] = positionals;
  if (!values.compare && a !== undefined) throw new Error(`${a}: is no option`);
  if (values.compare && (a === undefined || b === undefined || more.length > 0)) {
    throw new Error(`--compare: takes two files, got ${positionals.length}`);
  }
  const named = values.only?.split(",").map((name) => name.trim());
  const unknown = named?.filter((name) => !PATHS.some((path) => path === name)) ?? [];
  if (unknown.length > 0) throw new Error(`--only: there is no path ${unknown.join(", ")}; use ${PATHS.join(", ")}`);
  if (!/^\d{1,9}$/.test(values.seed)) throw new Error(`--seed: must be a whole number, got "${values.seed}"`);
  const left = [...NAMED_ONLY, ...(values.quick ? NOT_QUICK : [])];
  return {
    paths: PATHS.filter((path) => named?.includes(path) ?? !left.includes(path)),
    quick: values.quick,
    jsonPath: values.json,
    seed: Number(values.seed),
    profileFolder: values.profile,
    compare: a !== undefined && b !== undefined ? [a, b] : undefined,
    help: values.help,
  };
}
