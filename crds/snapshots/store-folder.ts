/** The name of the helper pod, of its volume claim and of its network policy. */
export const SNAPSHOTS_NAME = "tenancy-snapshots";

/** The Secret for clients that may only list the tenants with files. */
export const NAMES_SECRET = "tenancy-snapshots-names";

/** The helper pod's one container. */
export const SNAPSHOTS_CONTAINER = "snapshots";

/** The labels of the helper pod. Instances have `tenancy.dev/managed` instead. */
export const SNAPSHOTS_LABELS = { "app.kubernetes.io/name": SNAPSHOTS_NAME };
