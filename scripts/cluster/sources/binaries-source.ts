import type { Log } from "../log.ts";
import type { ProgramName } from "../programs.ts";

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
