import { events } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { CoreEvent } from "../../crds/kubernetes.ts";
import type { ApiTypes } from "./openapi/schemas.ts";

/** Of each object. A cluster keeps Events for an hour by default, and repeats are counted, not kept. */
const MOST = 100;

/** The Events about the objects of these uids that the cluster still keeps, the oldest first. */
export async function eventsOf(
  uids: readonly (string | undefined)[],
  { client, namespace }: { client: ClusterClient; namespace: string },
): Promise<ApiTypes["ObjectEvent"][]> {
  const lists = await Promise.all(
    uids
      .filter((uid) => uid !== undefined)
      .map((uid) => client.list(events, { namespace, fieldSelector: `involvedObject.uid=${uid}`, limit: MOST })),
  );
  return lists.flatMap(({ items }) => items.map(shown)).sort((a, b) => (a.at < b.at ? -1 : 1));
}

function shown(event: CoreEvent): ApiTypes["ObjectEvent"] {
  const { involvedObject, type = "Normal", reason = "", message = "", count } = event;
  // Those who use the newer API set `eventTime` alone.
  const at = event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";
  return {
    ...{ about: involvedObject.kind === "Pod" ? "instance" : "claim", type, reason, message, at },
    ...(count !== undefined && { count }),
  };
}
