/**
 * The slice of Kubernetes' wire types that this system reads and writes, as plain JSON: timestamps and quantities are strings.
 *
 * Follows https://kubernetes.io/docs/reference/kubernetes-api/. What the API server sends beyond it is kept, only not typed.
 */

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  name: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface KubernetesObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

export interface KubernetesList<T extends KubernetesObject> {
  apiVersion?: string;
  kind?: string;
  metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number };
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

export interface StatusCause {
  reason?: string;
  message?: string;
  field?: string;
}

export interface StatusDetails {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  causes?: StatusCause[];
  retryAfterSeconds?: number;
}

/** What the API server answers when a call fails, and when a deletion leaves no object to show. */
export interface Status {
  apiVersion?: string;
  kind: "Status";
  metadata?: { resourceVersion?: string; continue?: string };
  status?: "Success" | "Failure";
  message?: string;
  reason?: string;
  details?: StatusDetails;
  code?: number;
}

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: "In" | "NotIn" | "Exists" | "DoesNotExist"; values?: string[] }[];
}

// Pods

export interface KeySelector {
  name: string;
  key: string;
  optional?: boolean;
}

export interface EnvVar {
  name: string;
  value?: string;
  valueFrom?: {
    secretKeyRef?: KeySelector;
    configMapKeyRef?: KeySelector;
    fieldRef?: { fieldPath: string; apiVersion?: string };
  };
}

export interface EnvFromSource {
  prefix?: string;
  secretRef?: { name: string; optional?: boolean };
  configMapRef?: { name: string; optional?: boolean };
}

export interface ContainerPort {
  name?: string;
  containerPort: number;
  protocol?: "TCP" | "UDP" | "SCTP";
}

export interface VolumeMount {
  name: string;
  mountPath: string;
  subPath?: string;
  readOnly?: boolean;
}

export interface ResourceRequirements {
  limits?: Record<string, string>;
  requests?: Record<string, string>;
}

export interface HttpGetAction {
  path?: string;
  port: number | string;
  host?: string;
  scheme?: "HTTP" | "HTTPS";
  httpHeaders?: { name: string; value: string }[];
}

export interface Probe {
  httpGet?: HttpGetAction;
  tcpSocket?: { port: number | string; host?: string };
  exec?: { command: string[] };
  initialDelaySeconds?: number;
  periodSeconds?: number;
  timeoutSeconds?: number;
  successThreshold?: number;
  failureThreshold?: number;
}

export interface SeccompProfile {
  type: "RuntimeDefault" | "Unconfined" | "Localhost";
  localhostProfile?: string;
}

export interface SecurityContext {
  allowPrivilegeEscalation?: boolean;
  capabilities?: { add?: string[]; drop?: string[] };
  privileged?: boolean;
  readOnlyRootFilesystem?: boolean;
  runAsUser?: number;
  runAsGroup?: number;
  runAsNonRoot?: boolean;
  seccompProfile?: SeccompProfile;
}

export interface PodSecurityContext {
  runAsUser?: number;
  runAsGroup?: number;
  runAsNonRoot?: boolean;
  fsGroup?: number;
  fsGroupChangePolicy?: "Always" | "OnRootMismatch";
  supplementalGroups?: number[];
  seccompProfile?: SeccompProfile;
  sysctls?: { name: string; value: string }[];
}

export interface Lifecycle {
  preStop?: { exec?: { command: string[] }; httpGet?: HttpGetAction };
  postStart?: { exec?: { command: string[] }; httpGet?: HttpGetAction };
}

export interface Container {
  name: string;
  image: string;
  imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
  command?: string[];
  args?: string[];
  workingDir?: string;
  env?: EnvVar[];
  envFrom?: EnvFromSource[];
  ports?: ContainerPort[];
  resources?: ResourceRequirements;
  volumeMounts?: VolumeMount[];
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  startupProbe?: Probe;
  lifecycle?: Lifecycle;
  securityContext?: SecurityContext;
  restartPolicy?: "Always";
  stdin?: boolean;
  tty?: boolean;
  terminationMessagePath?: string;
  terminationMessagePolicy?: "File" | "FallbackToLogsOnError";
}

export interface KeyToPath {
  key: string;
  path: string;
  mode?: number;
}

export interface ProjectedSource {
  secret?: { name: string; items?: KeyToPath[]; optional?: boolean };
  configMap?: { name: string; items?: KeyToPath[]; optional?: boolean };
  downwardAPI?: { items?: { path: string; fieldRef: { fieldPath: string; apiVersion?: string } }[] };
}

export interface Volume {
  name: string;
  emptyDir?: { medium?: "" | "Memory"; sizeLimit?: string };
  configMap?: { name: string; items?: KeyToPath[]; defaultMode?: number; optional?: boolean };
  secret?: { secretName: string; items?: KeyToPath[]; defaultMode?: number; optional?: boolean };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  projected?: { defaultMode?: number; sources: ProjectedSource[] };
}

export interface Toleration {
  key?: string;
  operator?: "Exists" | "Equal";
  value?: string;
  effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
  tolerationSeconds?: number;
}

export interface PodSpec {
  containers: Container[];
  initContainers?: Container[];
  volumes?: Volume[];
  nodeName?: string;
  nodeSelector?: Record<string, string>;
  affinity?: Record<string, unknown>;
  tolerations?: Toleration[];
  topologySpreadConstraints?: Record<string, unknown>[];
  restartPolicy?: "Always" | "OnFailure" | "Never";
  activeDeadlineSeconds?: number;
  terminationGracePeriodSeconds?: number;
  serviceAccountName?: string;
  automountServiceAccountToken?: boolean;
  enableServiceLinks?: boolean;
  runtimeClassName?: string;
  priorityClassName?: string;
  imagePullSecrets?: { name: string }[];
  securityContext?: PodSecurityContext;
  shareProcessNamespace?: boolean;
  hostname?: string;
  subdomain?: string;
  hostNetwork?: boolean;
  hostUsers?: boolean;
  dnsPolicy?: "ClusterFirst" | "ClusterFirstWithHostNet" | "Default" | "None";
  dnsConfig?: { nameservers?: string[]; searches?: string[]; options?: { name: string; value?: string }[] };
}

export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: {
    exitCode: number;
    signal?: number;
    reason?: string;
    message?: string;
    startedAt?: string;
    finishedAt?: string;
    containerID?: string;
  };
}

export interface ContainerStatus {
  name: string;
  ready: boolean;
  restartCount: number;
  image: string;
  imageID?: string;
  containerID?: string;
  started?: boolean;
  state?: ContainerState;
  lastState?: ContainerState;
}

export type PodPhase = "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";

export interface PodCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastProbeTime?: string | null;
  lastTransitionTime?: string;
}

export interface PodStatus {
  phase?: PodPhase;
  conditions?: PodCondition[];
  reason?: string;
  message?: string;
  nominatedNodeName?: string;
  hostIP?: string;
  podIP?: string;
  podIPs?: { ip: string }[];
  startTime?: string;
  qosClass?: "Guaranteed" | "Burstable" | "BestEffort";
  initContainerStatuses?: ContainerStatus[];
  containerStatuses?: ContainerStatus[];
}

export interface Pod extends KubernetesObject {
  spec: PodSpec;
  status?: PodStatus;
}

// Networking

export interface IpBlock {
  cidr: string;
  except?: string[];
}

export interface NetworkPolicyPeer {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  ipBlock?: IpBlock;
}

export interface NetworkPolicyPort {
  protocol?: "TCP" | "UDP" | "SCTP";
  port?: number | string;
  endPort?: number;
}

export interface NetworkPolicyIngressRule {
  from?: NetworkPolicyPeer[];
  ports?: NetworkPolicyPort[];
}

export interface NetworkPolicyEgressRule {
  to?: NetworkPolicyPeer[];
  ports?: NetworkPolicyPort[];
}

export interface NetworkPolicy extends KubernetesObject {
  spec: {
    podSelector: LabelSelector;
    policyTypes?: ("Ingress" | "Egress")[];
    ingress?: NetworkPolicyIngressRule[];
    egress?: NetworkPolicyEgressRule[];
  };
}

export interface ServicePort {
  name?: string;
  port: number;
  targetPort?: number | string;
  nodePort?: number;
  protocol?: "TCP" | "UDP" | "SCTP";
}

export interface Service extends KubernetesObject {
  spec: {
    type?: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
    clusterIP?: string;
    selector?: Record<string, string>;
    ports?: ServicePort[];
    publishNotReadyAddresses?: boolean;
  };
}

// Configuration, storage, coordination

export interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
  binaryData?: Record<string, string>;
  immutable?: boolean;
}

/** `data` is base64; `stringData` is plain, is only ever sent, and wins over `data`. */
export interface Secret extends KubernetesObject {
  type?: string;
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  immutable?: boolean;
}

export interface ServiceAccount extends KubernetesObject {
  automountServiceAccountToken?: boolean;
  imagePullSecrets?: { name: string }[];
  secrets?: { name: string }[];
}

export interface PersistentVolumeClaim extends KubernetesObject {
  spec: {
    accessModes?: ("ReadWriteOnce" | "ReadOnlyMany" | "ReadWriteMany" | "ReadWriteOncePod")[];
    resources?: ResourceRequirements;
    storageClassName?: string;
    volumeMode?: "Filesystem" | "Block";
    volumeName?: string;
    selector?: LabelSelector;
  };
  status?: { phase?: "Pending" | "Bound" | "Lost"; capacity?: Record<string, string>; accessModes?: string[] };
}

/** Times are RFC 3339 with microseconds. */
export interface Lease extends KubernetesObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
  fieldPath?: string;
}

/** An Event of the core group; named so because `Event` is the web platform's. */
export interface CoreEvent extends KubernetesObject {
  involvedObject: ObjectReference;
  type?: "Normal" | "Warning";
  reason?: string;
  message?: string;
  action?: string;
  count?: number;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
  series?: { count?: number; lastObservedTime?: string };
}

export interface Namespace extends KubernetesObject {
  spec?: { finalizers?: string[] };
  status?: { phase?: "Active" | "Terminating" };
}

export interface Node extends KubernetesObject {
  spec?: {
    unschedulable?: boolean;
    podCIDR?: string;
    taints?: { key: string; value?: string; effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute" }[];
  };
  status?: {
    capacity?: Record<string, string>;
    allocatable?: Record<string, string>;
    conditions?: Condition[];
    addresses?: { type: string; address: string }[];
  };
}
