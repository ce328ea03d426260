/**
 * The release that is fetched or built. 1.34 is the last one whose kubelet takes a machine with version 1 control groups
 * as it is; `go/go.mod` pins the same one.
 */
export const KUBERNETES_VERSION = "v1.34.10";
