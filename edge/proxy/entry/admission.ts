import { servedPort } from "../../../crds/defaults.ts";
import { type HostTarget, hostLabel } from "../../../crds/host-name.ts";
import type { Exposure } from "../../../crds/network.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import type { KnownTenants } from "../wake/known-tenants.ts";
import type { Address } from "./address.ts";
import { type Credentials, grantedBy, type Pass, passOf } from "./entry.ts";

/** The instance of a request, and the basis of its admission. */
export interface Admission extends HostTarget {
  readonly pass: Pass;
}

export interface Admissions {
  /** Returns undefined for instances that do not exist or that the caller may not use. */
  admissionOf(asked: { address: Address; credentials: Credentials }): Admission | undefined;
  /**
   * The digits of a derived label whose owner a list of the archives may reveal; undefined if no list is needed:
   * strangers wake only public instances.
   */
  digitsToList(address: Address): string | undefined;
  /** The current exposure of a workload. */
  exposureOf(workload: string): Exposure | undefined;
}

/** Decides who is admitted to which instance, by the current caches. */
export function createAdmissions({
  namespace,
  cache,
  known,
}: {
  namespace: string;
  cache: Pick<ClusterCache, "claims" | "workloads">;
  known: Pick<KnownTenants, "named">;
}): Admissions {
  function digitsToList(address: Address): string | undefined {
    if (address.form !== "host" || address.derived === undefined) return undefined;
    const { digits } = address.derived;
    for (const { spec } of cache.workloads.store.values()) if (spec.network?.expose === "public") return digits;
    return undefined;
  }

  /** A derived label is found in the caller's grant, or among the claims and known tenants. */
  function lookUp(address: Address, credentials: Credentials): HostTarget | undefined {
    if (address.form !== "host") return undefined;
    const granted = grantedBy(credentials, address.label);
    if (granted !== undefined) return granted;
    const { derived, label } = address;
    if (derived === undefined) return undefined;
    const { digits, port } = derived;
    const [claim] = cache.claims.store.by("host", digits);
    const key = claim?.spec ?? known.named(digits);
    if (key === undefined) return undefined;
    const { workloadRef: workload, tenantId } = key;
    const found = { workload, tenantId, ...(port !== undefined && { port }) };
    // Only one name for each, since cookies and origins depend on it.
    return hostLabel(found) === label ? found : undefined;
  }

  function exposureOf(workload: string): Exposure | undefined {
    const found = cache.workloads.store.get({ namespace, name: workload });
    return found && (found.spec.network?.expose ?? "none");
  }

  function admissionOf({
    address,
    credentials,
  }: {
    address: Address;
    credentials: Credentials;
  }): Admission | undefined {
    const instance = address.instance ?? lookUp(address, credentials);
    return instance && admit(instance, credentials);
  }

  function admit(asked: HostTarget, credentials: Credentials): Admission | undefined {
    const { workload, tenantId } = asked;
    const found = cache.workloads.store.get({ namespace, name: workload });
    const port = found && servedPort(found.spec, asked.port);
    if (found === undefined || port === false) return undefined;
    const instance = { workload, tenantId, ...(port !== undefined && { port }) };
    const pass = passOf(found.spec.network?.expose ?? "none", credentials, instance);
    return pass && { ...instance, pass };
  }

  return { admissionOf, digitsToList, exposureOf };
}
