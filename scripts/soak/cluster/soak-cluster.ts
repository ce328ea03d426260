import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import type { Log } from "../../cluster/log.ts";
import type { Pair } from "../objects.ts";
import type { Content } from "./pod-files.ts";

/** What tenants, faults and the checker do to pods, and see of them, without the API server and without the product. */
export interface SoakPods {
  /** What is in a pod now, or was at its end; undefined of a pod that no node has started, or that keeps no files. */
  content(uid: string): Content | undefined;
  /** Writes into a pod as its program would; false where it does not run. */
  write(uid: string, token: Content, bytes: number): boolean;
  /** Ends what runs in a pod: by an eviction where it is played, by killing its processes where it is real. */
  fail(uid: string): Promise<void>;
  /** The nodes that can be made to stand still; none where they are real. */
  readonly nodes: readonly string[];
  podsOn(node: string): string[];
  /** Lets a node and all on it stand still; its pods show as not ready, as the node controller has it. */
  freeze(node: string): Promise<void>;
  thaw(node: string): Promise<void>;
}

/** An API server, and what runs pods. */
export interface SoakCluster {
  readonly api: ApiClient;
  readonly kubeconfigPath: string;
  readonly pods: SoakPods;
  /** Answers `pods/<name>/exec` where no kubelet is behind the API server. */
  onExec?(pod: string, request: IncomingMessage, connection: { socket: Duplex; head: Buffer }): void;
  /**
   * Where the program of the helper pod listens on this machine, for those who ask the API server to pass requests on,
   * which reaches no pod there; undefined while none runs.
   */
  helperPort?(): Promise<number | undefined>;
  readonly poolSizes: Readonly<Record<string, number>>;
  /** Those tenants that there is room for. */
  readonly pairs: readonly Pair[];
  /** How long after the last fault everything must have come to rest. */
  readonly mustRestMs: number;
  /** The folder that the snapshots volume is, where pods are folders. */
  readonly volume?: string;
  /** The folder of this machine that has the files of the snapshots volume. */
  readonly snapshots: string;
  /** Brings what its namespace takes, once that is there. */
  prepare?(): Promise<void>;
  /** What operators and edge are told of this cluster. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface SoakClusterOptions {
  seed: number;
  /** The repository whose programs run. */
  tree: string;
  log: Log;
  onTrouble(error: unknown): void;
  /** Takes what is to be done at the end, the last one first, also where the start fails. */
  onStop(step: () => unknown): void;
}
