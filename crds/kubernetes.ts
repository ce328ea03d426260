import type { models } from "kubernetes-fluent-client";

/**
 * A model of kubernetes-fluent-client as plain JSON, https://kubernetes.io/docs/reference/kubernetes-api/: a timestamp
 * is a string, and fields have no underscore before TypeScript's reserved words. Only types are imported, since loading
 * the package takes 80 MB.
 */
type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? { [Key in keyof T as Key extends `_${infer Name}` ? Name : Key]: Wire<T[Key]> }
      : T;

/** Metadata without `managedFields`, which no call and no watch returns. */
export interface ObjectMeta extends Omit<Wire<models.V1ObjectMeta>, "name" | "managedFields" | "selfLink"> {
  name: string;
}

export type OwnerReference = Wire<models.V1OwnerReference>;

export interface KubernetesObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

export interface KubernetesList<T extends KubernetesObject> {
  apiVersion?: string;
  kind?: string;
  metadata: Wire<models.V1ListMeta> & { resourceVersion: string };
  items: T[];
}

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
  observedGeneration?: number;
}

export type StatusDetails = Wire<models.V1StatusDetails>;

/** The API server's response to a failed call, and to a deletion after which there is no object to return. */
export interface Status extends Wire<models.V1Status> {
  kind: "Status";
}

// Pods

export type EnvVar = Wire<models.V1EnvVar>;
export type VolumeMount = Wire<models.V1VolumeMount>;
export type ResourceRequirements = Wire<models.V1ResourceRequirements>;
export type Probe = Wire<models.V1Probe>;
export type Container = Wire<models.V1Container>;
export type ProjectedSource = Wire<models.V1VolumeProjection>;
export type Volume = Wire<models.V1Volume>;
export type PodSpec = Wire<models.V1PodSpec>;
export type ContainerState = Wire<models.V1ContainerState>;
export type PodCondition = Wire<models.V1PodCondition>;
export type PodPhase = "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";

/** The kubelet sets `imageID` when it has the image. */
export interface ContainerStatus extends Omit<Wire<models.V1ContainerStatus>, "imageID"> {
  imageID?: string;
}

type ModelPodStatus = Omit<Wire<models.V1PodStatus>, "phase" | "containerStatuses" | "initContainerStatuses">;

export interface PodStatus extends ModelPodStatus {
  phase?: PodPhase;
  containerStatuses?: ContainerStatus[];
  initContainerStatuses?: ContainerStatus[];
}

export interface Pod extends KubernetesObject {
  spec: PodSpec;
  status?: PodStatus;
}

export interface Job extends KubernetesObject {
  spec: Wire<models.V1JobSpec>;
  status?: Wire<models.V1JobStatus>;
}

// Networking

export type NetworkPolicyEgressRule = Wire<models.V1NetworkPolicyEgressRule>;

export interface NetworkPolicy extends KubernetesObject {
  spec: Wire<models.V1NetworkPolicySpec & Required<Pick<models.V1NetworkPolicySpec, "podSelector">>>;
}

export interface Service extends KubernetesObject {
  spec: Wire<models.V1ServiceSpec>;
}

// Configuration, storage, coordination

export interface ResourceQuota extends KubernetesObject {
  spec?: Wire<models.V1ResourceQuotaSpec>;
  status?: Wire<models.V1ResourceQuotaStatus>;
}

export interface ConfigMap extends KubernetesObject, Pick<models.V1ConfigMap, "data" | "binaryData" | "immutable"> {}

/** `data` is base64. `stringData` is plain text, is only sent and never returned, and takes precedence over `data`. */
export interface Secret extends KubernetesObject, Pick<models.V1Secret, "type" | "data" | "stringData" | "immutable"> {}

export interface ServiceAccount extends KubernetesObject, Omit<Wire<models.V1ServiceAccount>, keyof KubernetesObject> {}

export interface PersistentVolumeClaim extends KubernetesObject {
  spec: Wire<models.V1PersistentVolumeClaimSpec>;
  status?: Wire<models.V1PersistentVolumeClaimStatus>;
}

/** Times are RFC 3339 with microseconds. */
export interface Lease extends KubernetesObject {
  spec?: Wire<models.V1LeaseSpec>;
}

/** An Event of the core group; named so because `Event` is the web platform's. */
export interface CoreEvent extends KubernetesObject, Omit<Wire<models.CoreV1Event>, keyof KubernetesObject> {}

export interface Namespace extends KubernetesObject {
  status?: Wire<models.V1NamespaceStatus>;
}

export interface Node extends KubernetesObject {
  spec?: Wire<models.V1NodeSpec>;
  status?: Wire<models.V1NodeStatus>;
}
