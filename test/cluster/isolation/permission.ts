import type { AuditedRequest } from "./audit-log.ts";

/** One verb on one resource, as a rule of RBAC grants it: `get pods/exec`, `patch tenancyclaims.tenancy.dev/status`. */
export type Permission = string;

/** The slice of a Role that is read, https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/role-v1/ */
export interface Role {
  readonly metadata: { readonly name: string };
  readonly rules: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

export function permission(verb: string, target: { group: string; resource: string; subresource?: string }): string {
  const { group, resource, subresource } = target;
  return `${verb} ${resource}${group === "" ? "" : `.${group}`}${subresource === undefined ? "" : `/${subresource}`}`;
}

/** What a role grants, verb by verb. */
export function grantedBy({ rules }: Role): Permission[] {
  return rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((path) => {
        const [resource = "", subresource] = path.split("/");
        return verbs.map((verb) => permission(verb, { group, resource, ...(subresource && { subresource }) }));
      }),
    ),
  );
}

/** What a request took; none for a path that is no object's, such as discovery. An apply that makes an object takes two. */
export function takenBy({ verb, objectRef, responseStatus }: AuditedRequest): Permission[] {
  if (objectRef === undefined) return [];
  const { apiGroup: group = "", resource, subresource } = objectRef;
  const target = { group, resource, ...(subresource !== undefined && { subresource }) };
  const made = verb === "patch" && responseStatus?.code === 201;
  return [permission(verb, target), ...(made ? [permission("create", target)] : [])];
}
