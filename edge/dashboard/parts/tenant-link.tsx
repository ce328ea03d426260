/** The address of a tenant's page. A trigger's event can name any text as a tenant, also half a character. */
export function tenantHref(tenantId: string): string {
  return `/dashboard/tenants/${encodeURIComponent(tenantId.toWellFormed())}`;
}

export function TenantLink({ of }: { of: string }) {
  return <a href={tenantHref(of)}>{of}</a>;
}
