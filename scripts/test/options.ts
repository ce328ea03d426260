import { parseArgs } from "node:util";
import { type Kind, kindNames, type Runtime, runtimes } from "./find-test-files.ts";

/** `short`: the tests that every change must pass, which test each promise once. `long`: the rest. */
const tiers = ["short", "long", "all"] as const;

export interface TestOptions {
  kinds: readonly Kind[];
  /** A file's path has to contain each of them. */
  patterns: string[];
  tier: (typeof tiers)[number];
  /** Only runs on this runtime. */
  runtime: Runtime | undefined;
  /** Runs the unit tests that name no runtime on Bun, which starts in a tenth of the time that Node takes. */
  quick: boolean;
  /** How many files run at once. @default depends on the kind */
  atOnce: number | undefined;
  /** Runs only tests that a change since this commit can affect. "" means the upstream branch, or the last commit. */
  changedSince: string | undefined;
}

/** @throws Error that names the wrong argument and the allowed values */
export function parseTestOptions(words: string[]): TestOptions {
  const { values, positionals } = parseArgs({
    args: words,
    allowPositionals: true,
    options: {
      tier: { type: "string" },
      runtime: { type: "string" },
      quick: { type: "boolean", default: false },
      "at-once": { type: "string" },
      changed: { type: "boolean", default: false },
    },
  });
  const first = positionals[0] as Kind | undefined;
  const isKind = first !== undefined && kindNames.includes(first);
  const others = isKind ? positionals.slice(1) : positionals;
  const atOnce = values["at-once"];
  if (atOnce !== undefined && !/^[1-9]\d*$/.test(atOnce)) {
    throw new Error(`--at-once: must be a number of files, got "${atOnce}"`);
  }
  if (values.changed && others.length > 1) throw new Error(`--changed: takes one commit, got "${others.join(" ")}"`);
  const patterns = values.changed ? [] : others;
  return {
    kinds: isKind ? [first] : kindNames,
    patterns,
    // A person who names a file or a runtime wants its long tests too.
    tier:
      oneOf("--tier", tiers, values.tier) ?? (patterns.length > 0 || values.runtime !== undefined ? "all" : "short"),
    runtime: oneOf("--runtime", runtimes, values.runtime),
    quick: values.quick,
    atOnce: atOnce === undefined ? undefined : Number(atOnce),
    changedSince: values.changed ? (others[0] ?? "") : undefined,
  };
}

function oneOf<T extends string>(name: string, allowed: readonly T[], value: string | undefined): T | undefined {
  if (value === undefined || (allowed as readonly string[]).includes(value)) return value as T | undefined;
  throw new Error(`${name}: must be one of ${allowed.join(", ")}, got "${value}"`);
}
