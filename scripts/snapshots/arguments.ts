import { readFileSync } from "node:fs";
import { parseArgs, parseEnv } from "node:util";
import { type StorePlace, storePlace } from "../../crds/snapshots/store-config.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** A store named on the command line. */
export interface NamedStore {
  /** The name on the command line. */
  readonly name: string;
  readonly place: StorePlace;
  /** The environment with its credentials. */
  readonly env: Environment;
}

/** The arguments of the command line. */
export type SnapshotsArguments =
  | { readonly command: "help" }
  | {
      readonly command: "copy";
      readonly from: NamedStore;
      readonly to: NamedStore;
      readonly deletes: boolean;
      readonly namespace: string;
      /** The context of the kubeconfig. @default the current one */
      readonly context: string | undefined;
    };

export const USAGE = `npm run snapshots -- copy --from STORE --to STORE [--delete] [--from-env FILE] [--to-env FILE]
                                [--namespace NAME] [--context NAME]

  copy   copies all snapshots with their versions, then the usage records. What the target has is not sent again.
         Snapshots that were used in the target since stay. Ends with 0 if the target has all, else with 1

  STORE              volume, or s3://bucket/prefix
  --delete           deletes in the target the snapshots that the source does not have. Nothing may use the target
                     then. Nothing is deleted if the target was used since the last copy
  --from-env FILE    variables of the store (TENANCY_SNAPSHOT_REGION, AWS_ACCESS_KEY_ID and so on), one NAME=VALUE per
  --to-env FILE      line; default: the variables of this process
  --namespace NAME   the namespace of the snapshots volume; default: tenancy
  --context NAME     the context of the kubeconfig, for the volume. The volume is reached through the API server unless
                     TENANCY_SNAPSHOT_ACCESS=direct
`;

/**
 * Reads the command line, and the files that it names.
 *
 * @throws Error that describes the mistake
 */
export function parseArguments(words: readonly string[], env: Environment): SnapshotsArguments {
  const { values, positionals } = parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      from: { type: "string" },
      to: { type: "string" },
      "from-env": { type: "string" },
      "to-env": { type: "string" },
      delete: { type: "boolean", default: false },
      namespace: { type: "string", default: env.TENANCY_NAMESPACE ?? "tenancy" },
      context: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const [command, ...surplus] = positionals;
  if (values.help || command === undefined || command === "help") return { command: "help" };
  if (command !== "copy") throw new Error(`Cannot do "${command}": use copy`);
  if (surplus.length > 0) throw new Error(`Cannot make sense of "${surplus.join(" ")}" after copy`);
  const from = namedStore("--from", values.from, fileEnvironment(values["from-env"]) ?? env);
  const to = namedStore("--to", values.to, fileEnvironment(values["to-env"]) ?? env);
  if (from.place.kind === "volume" && to.place.kind === "volume") {
    throw new Error("Cannot copy the volume to itself: one of --from and --to must be s3://bucket/prefix");
  }
  const { namespace, context, delete: deletes } = values;
  return { command: "copy", from, to, deletes, namespace, context };
}

function namedStore(option: string, name: string | undefined, env: Environment): NamedStore {
  if (name === undefined) throw new Error(`Cannot copy without ${option}: name volume or s3://bucket/prefix`);
  // A volume ignores the settings of the other store.
  const own = Object.entries(env).filter(([variable]) => name !== "volume" || !isOfObjects(variable));
  const access = env.TENANCY_SNAPSHOT_ACCESS ?? "api-server";
  const given = { ...Object.fromEntries(own), TENANCY_SNAPSHOT_STORE: name, TENANCY_SNAPSHOT_ACCESS: access };
  try {
    return { name, place: storePlace(given), env };
  } catch (cause) {
    throw new Error(`Cannot use ${option} ${name}: ${(cause as Error).message}`, { cause });
  }
}

function isOfObjects(variable: string): boolean {
  return /^TENANCY_SNAPSHOT_(ENDPOINT|REGION|PATH_STYLE|SSE|KMS_KEY)$/.test(variable);
}

function fileEnvironment(path: string | undefined): Environment | undefined {
  return path === undefined ? undefined : parseEnv(readFileSync(path, "utf8"));
}
