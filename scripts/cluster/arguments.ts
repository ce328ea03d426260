import { parseArgs } from "node:util";
import { DEFAULT_CLUSTER } from "./folders.ts";

export const COMMANDS = ["up", "down", "status", "kubeconfig", "load"] as const;
export type Command = (typeof COMMANDS)[number];

/** The arguments of the command line. */
export type ClusterArguments =
  | { readonly command: "help" }
  | {
      readonly command: Command;
      readonly name: string;
      /** Whether to start only etcd and the API server. */
      readonly controlPlane: boolean;
      /** The number of simulated nodes. */
      readonly simulatedNodes: number;
      /** The only source, besides the cache, that the Kubernetes programs may come from. */
      readonly source?: string;
      /** The image to load: an archive, an OCI layout's folder or `docker://NAME`. */
      readonly image?: string;
    };

export const USAGE = `npm run cluster -- up | down | status | kubeconfig | load IMAGE [--name NAME]

  up           start a single-node Kubernetes cluster, or find it up already
  down         stop it and remove everything that it has made, except the cached programs
  status       say how it is
  kubeconfig   print the path of its kubeconfig
  load IMAGE   load an image into it, which pulls none, and print what to write into image.ref of a workload or FROM of a
               build file;
               FILE.tar (docker save, or an OCI layout), the FOLDER of an OCI layout, or docker://NAME

  --name NAME            which cluster (${DEFAULT_CLUSTER})
  --control-plane        up: etcd and the API server alone, for tests
  --simulated-nodes N    up: with --control-plane, nodes in name only that ready pods without containers
  --source SOURCE        up: take the programs from this place only: official-release, go-modules or debian-source

  TENANCY_K8S_BIN        a folder with kube-apiserver and its like, used before any other place
`;

/**
 * Reads the command line.
 *
 * @throws Error that describes the mistake
 */
export function parseArguments(words: readonly string[]): ClusterArguments {
  const { values, positionals } = parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      name: { type: "string", default: DEFAULT_CLUSTER },
      "control-plane": { type: "boolean", default: false },
      "simulated-nodes": { type: "string", default: "0" },
      source: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const [command, ...rest] = positionals;
  if (values.help || command === undefined || command === "help") return { command: "help" };
  if (!isCommand(command)) throw new Error(`Cannot do "${command}": use one of ${COMMANDS.join(", ")}`);
  const [image, ...surplus] = command === "load" ? rest : [undefined, ...rest];
  if (command === "load" && image === undefined) {
    throw new Error("Cannot load nothing: name FILE.tar, the FOLDER of an OCI layout, or docker://NAME after load");
  }
  if (surplus.length > 0) throw new Error(`Cannot make sense of "${surplus.join(" ")}" after ${command}`);
  const simulatedNodes = Number(values["simulated-nodes"]);
  if (!Number.isInteger(simulatedNodes) || simulatedNodes < 0 || simulatedNodes > 1000) {
    throw new Error(`Cannot use --simulated-nodes ${values["simulated-nodes"]}: it is no number between 0 and 1000`);
  }
  if (simulatedNodes > 0 && !values["control-plane"]) {
    throw new Error("Cannot use --simulated-nodes without --control-plane: a complete cluster has a real node");
  }
  return {
    command,
    name: values.name,
    controlPlane: values["control-plane"],
    simulatedNodes,
    ...(values.source === undefined ? {} : { source: values.source }),
    ...(image === undefined ? {} : { image }),
  };
}

function isCommand(word: string): word is Command {
  return (COMMANDS as readonly string[]).includes(word);
}
