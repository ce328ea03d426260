import { objectName } from "../../crds/names.ts";

/** The prefix of all Secrets and ConfigMaps that the operator creates for a proxy. */
export const EGRESS_PREFIX = "tenancy-egress";

// Without a `-` before `ca`: otherwise the authority of `x` would have the name of the leaves of `ca-x`.
const AUTHORITY_PREFIX = `${EGRESS_PREFIX}ca`;

/** Names of the objects that the proxy of a workload needs. */
export interface EgressNames {
  /** ConfigMap with the proxy's configuration. */
  readonly settings: string;
  /** Secret with the sidecar's certificates and keys. */
  readonly leaves: string;
  /** Secret with the key of the workload's authority, which no pod mounts. */
  readonly authority: string;
}

export function egressNames(workload: string): EgressNames {
  const own = objectName({ prefix: EGRESS_PREFIX, parts: [workload], unique: true });
  return {
    settings: own,
    leaves: own,
    authority: objectName({ prefix: AUTHORITY_PREFIX, parts: [workload], unique: true }),
  };
}

/** The names that earlier versions used. Another workload's objects may have the same names. */
export function formerEgressNames(workload: string): EgressNames {
  const own = objectName({ prefix: EGRESS_PREFIX, parts: [workload] });
  return { settings: own, leaves: own, authority: objectName({ prefix: `${EGRESS_PREFIX}-ca`, parts: [workload] }) };
}
