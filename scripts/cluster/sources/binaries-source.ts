import type { Log } from "../log.ts";
import type { ProgramName } from "../programs.ts";

/**
 * The release that is fetched or built. 1.34 is the last one whose kubelet takes a machine with version 1 control
 * groups as it is; `go/go.mod` pins the same one.
 */
export const KUBERNETES_VERSION = "v1.34.10";

export interface SourceContext {
  readonly need: readonly ProgramName[];
  readonly environment: NodeJS.ProcessEnv;
  /** The folder that holds one folder a set of programs. */
  readonly binariesFolder: string;
  readonly log: Log;
}

/** A folder with `kube-apiserver` and its like in it, or why this source has none. */
export type SourceResult = { readonly folder: string; readonly version: string } | { readonly because: string };

/**
 * One place that Kubernetes programs can come from. `find` throws when something is wrong that trying another place
 * would only hide.
 */
export interface BinariesSource {
  readonly name: string;
  /** Whether it may fetch or build, and so only one process may ask it at a time. */
  readonly takesLong: boolean;
  find(context: SourceContext): Promise<SourceResult>;
}

const EVERY_MS = 10_000;

/**
 * Runs a long step and logs the latest message that it has given, every ten seconds, so that it shows that it moves
 * even while it has nothing new to say.
 */
export async function withProgress<Result>(log: Log, work: (update: Log) => Promise<Result>): Promise<Result> {
  let latest = "still at it";
  const timer = setInterval(() => log(latest), EVERY_MS);
  try {
    return await work((message) => {
      latest = message;
    });
  } finally {
    clearInterval(timer);
  }
}
