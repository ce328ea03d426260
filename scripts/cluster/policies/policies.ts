/** Whether a cluster's network policies close anything. */
export type Policies = { readonly enforced: true } | { readonly enforced: false; readonly because: string };
