import { servedPort } from "../../../crds/defaults.ts";
import { type HostTarget, hostLabel } from "../../../crds/host-name.ts";
import type { Exposure } from "../../../crds/network.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import type { KnownTenants } from "../wake/known-tenants.ts";
import type { Address } from "./address.ts";
import { type Credentials, grantedBy, type Pass, passOf } from "./entry.ts";

/** The instance that a request is for, and by what right it comes in. */
export interface Admission extends HostTarget {
  readonly pass: Pass;
}

export interface Admissions {
  /** Returns nothing for what is not there and for what is closed to the caller. */
  admissionOf(asked: { address: Address; credentials: Credentials }): Admission | undefined;
  /**
   * The digits of a derived label, whose owner a list of the archives may tell; undefined where no list is needed, since
   * strangers wake public instances alone.
   */
  digitsToList(address: Address): string | undefined;
  /** To whom a workload is open at present. */
  exposureOf(workload: string): Exposure | undefined;
}

/** Tells who is admitted to which instance, by what the caches hold at that moment. */
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

  /** A derived label is found by what its caller was granted, else among the claims and those who were there. */
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
    // One name for each, as cookies and origins go by it.
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
