/** The programs that a complete local cluster is made of. */
export const PROGRAMS = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kubectl",
] as const;

export type ProgramName = (typeof PROGRAMS)[number];

/** The programs of a control plane without controllers. */
export const CONTROL_PLANE_PROGRAMS: readonly ProgramName[] = ["etcd", "kube-apiserver"];
