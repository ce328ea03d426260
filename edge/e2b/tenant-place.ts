import { createInsidePlaces, type InsidePlace } from "../api/inside/call-inside.ts";

/** The address of instances by their tenant and workload. */
export function tenantPlace(services: Parameters<typeof createInsidePlaces>[0]): InsidePlace {
  const place = createInsidePlaces(services).find(({ base }) => base.startsWith("/api/v1/tenants/"));
  if (place === undefined) throw new Error("Cannot serve E2B's calls: no address of instances names a tenant");
  return place;
}
