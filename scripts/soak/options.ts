import { parseArgs } from "node:util";

export const usage = `usage: npm run soak -- [--failover N] [--minutes N] [--seed S] [--containers] [--keep-going] [--tree FOLDER] [--trace FOLDER]
  --failover N    instead of all that follows: N leaders lost, edges killed in between and the API server away for a
                  minute, under a load of claims; tells how long none was completed (docs/operating.md)
  --minutes N     how long faults are injected and tenants come and go (default: 3)
  --seed S        the row of decisions: who claims what, which fault comes when (default: one by chance); an even one keeps
                  snapshots on the volume, an odd one in object storage
  --containers    runs pods as real containers, on a local cluster of its own, instead of as folders of this machine
  --keep-going    goes on after a violation, and reports all of them at the end
  --tree FOLDER   the checkout whose operator and edge are run, such as one of an older commit (default: this one)
  --trace FOLDER  where every event is written, in events.jsonl, and what the programs write (default: a temporary one, which is kept
                  on a failure)`;

export interface SoakOptions {
  /** How many leaders are lost, where nothing else is done. */
  readonly failover: number | undefined;
  readonly minutes: number;
  readonly seed: number;
  readonly isContainers: boolean;
  readonly keepGoing: boolean;
  readonly tree: string;
  readonly traceFolder: string | undefined;
  readonly help: boolean;
}

/**
 * Reads the command line.
 *
 * @throws Error that names what is wrong with it
 */
export function parseOptions(commandArguments: readonly string[], root: string): SoakOptions {
  const { values } = parseArgs({
    args: [...commandArguments],
    options: {
      failover: { type: "string" },
      minutes: { type: "string", default: "3" },
      seed: { type: "string" },
      containers: { type: "boolean", default: false },
      "keep-going": { type: "boolean", default: false },
      tree: { type: "string", default: root },
      trace: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const minutes = Number(values.minutes);
  if (!(minutes > 0 && minutes <= 10_000))
    throw new Error(`--minutes: must be a number above 0, not ${values.minutes}`);
  const seed = values.seed ?? String(Math.floor(Math.random() * 1e9));
  if (!/^\d{1,9}$/.test(seed)) throw new Error(`--seed: must be a whole number of at most 9 digits, not "${seed}"`);
  const failover = values.failover === undefined ? undefined : Number(values.failover);
  if (failover !== undefined && !(Number.isInteger(failover) && failover > 0))
    throw new Error(`--failover: must be a whole number above 0, not ${values.failover}`);
  return {
    failover,
    minutes,
    seed: Number(seed),
    isContainers: values.containers,
    keepGoing: values["keep-going"],
    tree: values.tree,
    traceFolder: values.trace,
    help: values.help,
  };
}
