import { NetworkError } from "../../crds/client/api-error.ts";
import { leases } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";

/** A client whose changes of Leases do not reach the API server while they are cut off. */
export function cutLeases(client: ClusterClient, isCut: () => boolean): ClusterClient {
  function check({ plural }: { plural: string }): void {
    if (isCut() && plural === leases.plural)
      throw new NetworkError("Cannot reach the API server: cut by the test", { requestWasSent: false });
  }
  return {
    ...client,
    async replace(resource, object, options) {
      check(resource);
      return client.replace(resource, object, options);
    },
    async patch(resource, reference, options) {
      check(resource);
      return client.patch(resource, reference, options);
    },
  };
}
