import { ApiError, NetworkError } from "../../crds/client/api-error.ts";
import { events } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import type { CoreEvent } from "../../crds/kubernetes.ts";
import type { ApiTypes } from "./openapi/schemas.ts";

/** Limit per object. A cluster stores Events for an hour by default, and counts repeats instead of storing them. */
const MOST = 100;

/** Limit of a list of Events, for which the API server scans all; an explanation is not worth a longer wait. */
const LIMIT_MS = 5000;

/**
 * The Events about the objects of these uids that the cluster still has, oldest first. If they cannot be read, the
 * reason: callers can still show the objects.
 */
export async function eventsOf(
  uids: readonly (string | undefined)[],
  { cluster }: { cluster: Cluster },
): Promise<{ events: ApiTypes["ObjectEvent"][] } | { eventsProblem: string }> {
  const options = { limit: MOST, timeoutMs: LIMIT_MS };
  try {
    const lists = await Promise.all(
      uids
        .filter((uid) => uid !== undefined)
        .map((uid) => cluster(events).list({ ...options, fieldSelector: `involvedObject.uid=${uid}` })),
    );
    return { events: lists.flatMap(({ items }) => items.map(shown)).sort((a, b) => (a.at < b.at ? -1 : 1)) };
  } catch (error) {
    if (!(error instanceof ApiError) && !(error instanceof NetworkError)) throw error;
    return { eventsProblem: `cannot read the Events: ${error.message}` };
  }
}

function shown(event: CoreEvent): ApiTypes["ObjectEvent"] {
  const { involvedObject, type = "Normal", reason = "", message = "", count } = event;
  // Clients of the newer API set only `eventTime`.
  const at = event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";
  return {
    ...{ about: involvedObject.kind === "Pod" ? "instance" : "claim", type, reason, message, at },
    ...(count !== undefined && { count }),
  };
}
