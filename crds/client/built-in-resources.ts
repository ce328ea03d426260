import type {
  ConfigMap,
  CoreEvent,
  Job,
  Lease,
  Namespace,
  NetworkPolicy,
  Node,
  PersistentVolumeClaim,
  Pod,
  ResourceQuota,
  Secret,
  Service,
  ServiceAccount,
} from "../kubernetes.ts";
import { defineResource } from "../resource.ts";

export const pods = defineResource<Pod>({ group: "", version: "v1", plural: "pods", kind: "Pod" });

export const services = defineResource<Service>({ group: "", version: "v1", plural: "services", kind: "Service" });

export const configMaps = defineResource<ConfigMap>({
  group: "",
  version: "v1",
  plural: "configmaps",
  kind: "ConfigMap",
});

export const resourceQuotas = defineResource<ResourceQuota>({
  group: "",
  version: "v1",
  plural: "resourcequotas",
  kind: "ResourceQuota",
});

export const secrets = defineResource<Secret>({ group: "", version: "v1", plural: "secrets", kind: "Secret" });

export const serviceAccounts = defineResource<ServiceAccount>({
  group: "",
  version: "v1",
  plural: "serviceaccounts",
  kind: "ServiceAccount",
});

export const events = defineResource<CoreEvent>({ group: "", version: "v1", plural: "events", kind: "Event" });

export const persistentVolumeClaims = defineResource<PersistentVolumeClaim>({
  group: "",
  version: "v1",
  plural: "persistentvolumeclaims",
  kind: "PersistentVolumeClaim",
});

export const namespaces = defineResource<Namespace>({
  group: "",
  version: "v1",
  plural: "namespaces",
  kind: "Namespace",
  namespaced: false,
});

export const nodes = defineResource<Node>({
  group: "",
  version: "v1",
  plural: "nodes",
  kind: "Node",
  namespaced: false,
});

export const jobs = defineResource<Job>({ group: "batch", version: "v1", plural: "jobs", kind: "Job" });

export const leases = defineResource<Lease>({
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  kind: "Lease",
});

export const networkPolicies = defineResource<NetworkPolicy>({
  group: "networking.k8s.io",
  version: "v1",
  plural: "networkpolicies",
  kind: "NetworkPolicy",
});
