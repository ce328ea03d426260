/** The address of a tenant's page. */
export function tenantHref(tenantId: string): string {
  return `/dashboard/tenants/${encodeURIComponent(tenantId)}`;
}

export function TenantLink({ of }: { of: string }) {
  return <a href={tenantHref(of)}>{of}</a>;
}
