/**
 * In the metadata of a patch: has the API server forget who set which field of the object, and not keep track of it from then on
 * (docs/decisions/206). Not for objects that are applied.
 *
 * Follows https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
 */
export const untracked = { managedFields: [{}] } as const;
