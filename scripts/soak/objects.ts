/** The namespace of operator and edge, and the namespace of the checker's own marks. */
export const NAMESPACE = "tenancy";
export const MARKS_NAMESPACE = "soak-marks";

/**
 * The images of the workloads and the programs. Simulated pods only check their names; real pods run them.
 */
export const APP_IMAGE = "localhost/tenancy-hello:1";
export const TOOLS_IMAGE = "localhost/tenancy-busybox:1";
export const PROXY_IMAGE = "localhost/tenancy-proxy:1";

/** The workload whose claims no tenant releases: they end for idleness. */
export const IDLE = "idle";
export const IDLE_SECONDS = 15;

/** The workloads whose programs write down what a claim brings: when they are told of it, or when they start. */
export const TOLD = "told";
export const STARTED = "started";

/** Where they do that, in memory. */
export const INPUTS_FILE = "/run/tenancy/inputs-of-soak";

export const PODS_PATH = `/api/v1/namespaces/${NAMESPACE}/pods`;
export const CLAIMS_PATH = `/apis/tenancy.dev/v1alpha1/namespaces/${NAMESPACE}/tenancyclaims`;
export const WORKLOADS_PATH = `/apis/tenancy.dev/v1alpha1/namespaces/${NAMESPACE}/tenancyworkloads`;
export const POOLS_PATH = `/apis/tenancy.dev/v1alpha1/namespaces/${NAMESPACE}/tenancypools`;

/**
 * The part of an object that the soak reads. It has its own type, so that a mistake in the product's types is not
 * repeated here.
 */
export interface Metadata {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly volumeMounts?: readonly { readonly mountPath: string }[];
}

export interface Pod {
  readonly metadata: Metadata;
  readonly spec: {
    readonly nodeName?: string;
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly containerStatuses?: readonly { readonly containerID?: string }[];
  };
}

export interface Claim {
  readonly metadata: Metadata;
  readonly spec: { readonly tenantId: string; readonly workloadRef: string; readonly resume?: boolean };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly instanceId?: string;
    readonly endpoint?: { readonly host: string };
    readonly source?: string;
  };
}

export interface Pool {
  readonly metadata: Metadata;
  readonly spec: { readonly size: number };
  readonly status?: {
    readonly ready?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message?: string }[];
  };
}

/** A tenant and a workload. */
export interface Pair {
  readonly tenantId: string;
  readonly workloadRef: string;
}

export function pairOf({ spec }: Claim): string {
  return pairName(spec);
}

export function pairName({ tenantId, workloadRef }: Pair): string {
  return JSON.stringify([tenantId, workloadRef]);
}

/** The invariants, which must hold at every moment. `docs/explanation/promises.md` describes each. */
export type Invariant =
  | "one tenant a pod"
  | "endpoint is the claim's own"
  | "last saved files"
  | "last checkpoint"
  | "no claim stuck"
  | "no orphan pod"
  | "live pod kept"
  | "newest fence"
  | "one pod a claim"
  | "pool is full"
  | "idle release"
  | "own inputs"
  | "rest is quiet"
  | "programs run";

/** A check of an invariant: the message if it is violated, and the objects that it is about. */
export interface Finding {
  readonly message: () => string;
  readonly about: readonly string[];
}
