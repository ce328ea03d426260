/** The name of the helper pod, of its volume claim and of its network policy. */
export const SNAPSHOTS_NAME = "tenancy-snapshots";

/** The Secret for processes that may only read which tenants have files. */
export const NAMES_SECRET = "tenancy-snapshots-names";

/** The helper pod's one container. */
export const SNAPSHOTS_CONTAINER = "snapshots";

/** Tells the helper pod from instances, which carry `tenancy.dev/managed`. */
export const SNAPSHOTS_LABELS = { "app.kubernetes.io/name": SNAPSHOTS_NAME };
