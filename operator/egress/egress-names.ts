import { objectName } from "../../crds/object-name.ts";

/** Starts the name of every Secret that a sidecar mounts and the operator makes. */
export const LEAVES_PREFIX = "tenancy-egress";

/** Starts the name of every Secret with an authority's key, which no pod mounts. */
export const AUTHORITY_PREFIX = "tenancy-egress-ca";

/** Names of the objects that the proxy of a workload needs. */
export function egressNames(workload: string): {
  /** ConfigMap with the proxy's configuration. */
  readonly settings: string;
  /** Secret with the certificates and keys that the sidecar answers with. */
  readonly leaves: string;
  /** Secret with the key of the workload's authority. */
  readonly authority: string;
} {
  const own = objectName({ prefix: LEAVES_PREFIX, parts: [workload] });
  return { settings: own, leaves: own, authority: objectName({ prefix: AUTHORITY_PREFIX, parts: [workload] }) };
}
