import { ApiError, NetworkError } from "../../crds/client/api-error.ts";
import { events } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import type { CoreEvent } from "../../crds/kubernetes.ts";
import type { ApiTypes } from "./openapi/schemas.ts";

/** Of each object. A cluster keeps Events for an hour by default, and repeats are counted, not kept. */
const MOST = 100;

/** Of a list of Events, which the API server answers by a scan. Nobody waits longer for what only explains. */
const LIMIT_MS = 5000;

/**
 * The Events about the objects of these uids that the cluster still keeps, the oldest first; where they cannot be read,
 * why not, since whoever shows the objects needs the rest all the same.
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
    return { eventsProblem: `the Events cannot be read: ${error.message}` };
  }
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
