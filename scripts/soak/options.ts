import { parseArgs } from "node:util";

export const usage = `usage: npm run soak -- [--failover N | --crash-everywhere | --states] [--minutes N] [--seed S] [--containers] [--keep-going] [--tree FOLDER] [--trace FOLDER]
  --failover N    instead of all that follows: N leaders lost, edges killed in between and the API server away for a
                  minute, under a load of claims; reports how long none was completed
                  (docs/explanation/promises.md)
  --crash-everywhere
                  instead: runs stories such as a claim, and each again for each write of the operator, killed there, and
                  for each of its watch events, with that event late, doubled or lost (docs/explanation/promises.md)
  --story NAME    of --crash-everywhere: that story alone
  --at WHERE      of --crash-everywhere: that disturbance alone, such as "crash PATCH pods 1"
  --states        instead: moves each field of a workload and a pool through its limits and back
                  (docs/explanation/promises.md)
  --field PATH    of --states: that field alone, such as workload.network.access
  --minutes N     how long faults are injected and tenants come and go (default: 3)
  --seed S        the row of decisions: who claims what, which fault comes when (default: one by chance); an even one keeps
                  snapshots on the volume, an odd one in object storage
  --containers    runs pods as real containers, on a local cluster of its own, instead of as folders of this machine
  --keep-going    goes on after a violation or difference, and reports all of them at the end
  --tree FOLDER   the checkout whose operator and edge are run, such as one of an older commit (default: this one)
  --trace FOLDER  where every event is written, in events.jsonl, and what the programs write (default: a temporary one, which is kept
                  on a failure)`;

export interface SoakOptions {
  /** How many leaders are lost, if the run does only that. */
  readonly failover: number | undefined;
  /** The systematic driver that runs instead. */
  readonly driver: "crash-everywhere" | "states" | undefined;
  readonly story: string | undefined;
  readonly at: string | undefined;
  readonly field: string | undefined;
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
 * @throws Error that describes the mistake
 */
export function parseOptions(commandArguments: readonly string[], root: string): SoakOptions {
  const { values } = parseArgs({
    args: [...commandArguments],
    options: {
      failover: { type: "string" },
      "crash-everywhere": { type: "boolean", default: false },
      states: { type: "boolean", default: false },
      story: { type: "string" },
      at: { type: "string" },
      field: { type: "string" },
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
    driver: values["crash-everywhere"] ? "crash-everywhere" : values.states ? "states" : undefined,
    story: values.story,
    at: values.at,
    field: values.field,
    minutes,
    seed: Number(seed),
    isContainers: values.containers,
    keepGoing: values["keep-going"],
    tree: values.tree,
    traceFolder: values.trace,
    help: values.help,
  };
}
