import { objectName } from "../../crds/names.ts";

/** Starts the name of every Secret and ConfigMap that the operator makes for a proxy. */
export const EGRESS_PREFIX = "tenancy-egress";

// Not with a `-` between: the authority of `x` would have the name of the leaves of `ca-x`.
const AUTHORITY_PREFIX = `${EGRESS_PREFIX}ca`;

/** Names of the objects that the proxy of a workload needs. */
export interface EgressNames {
  /** ConfigMap with the proxy's configuration. */
  readonly settings: string;
  /** Secret with the certificates and keys that the sidecar answers with. */
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

/** The names that earlier versions gave, which another workload's objects may have as well. */
export function formerEgressNames(workload: string): EgressNames {
  const own = objectName({ prefix: EGRESS_PREFIX, parts: [workload] });
  return { settings: own, leaves: own, authority: objectName({ prefix: `${EGRESS_PREFIX}-ca`, parts: [workload] }) };
}
