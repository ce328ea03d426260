import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { type MetricsText, parseMetrics } from "./usage.ts";

/** An API server's work for claims, whichever client caused it, including the pool's refill. */
export interface ServerCounts {
  /** Requests that write, by verb and resource, as in `PATCH pods`. */
  readonly writes: Readonly<Record<string, number>>;
  /** Sent to all watchers, those of the nodes and of the bench among them. */
  readonly watchEvents: number;
  readonly watchKb: number;
}

const WRITES = new Set(["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"]);

// These are written independently of claims.
const NEVER_A_CLAIMS = new Set(["nodes", "nodes/status", "leases"]);

/**
 * Reads the counters of an API server, which do not influence the measurement. Its metrics have no user agent, so the
 * writes of scheduler and kubelet to a pod are counted too.
 */
export function readServerCounts(metrics: MetricsText): ServerCounts {
  const writes: Record<string, number> = {};
  for (const { labels, value } of metrics.series("apiserver_request_total")) {
    const { verb = "", resource = "", subresource = "" } = labels;
    const name = subresource === "" ? resource : `${resource}/${subresource}`;
    if (!WRITES.has(verb) || resource === "" || NEVER_A_CLAIMS.has(name)) continue;
    writes[`${verb} ${name}`] = (writes[`${verb} ${name}`] ?? 0) + value;
  }
  return {
    writes,
    watchEvents: metrics.sum("apiserver_watch_events_total"),
    watchKb: metrics.sum("apiserver_watch_events_sizes_sum") / 1024,
  };
}

/** The API server's work per claim, from the counters before and after a number of claims. Zeros are omitted. */
export function serverCountsPerClaim(before: ServerCounts, after: ServerCounts, claims: number): ServerCounts {
  const writes = Object.entries(after.writes)
    .map(([name, count]) => [name, (count - (before.writes[name] ?? 0)) / claims] as const)
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a);
  return {
    writes: Object.fromEntries(writes),
    watchEvents: (after.watchEvents - before.watchEvents) / claims,
    watchKb: (after.watchKb - before.watchKb) / claims,
  };
}

/** Asks the API server. */
export async function currentServerCounts(client: ClusterClient): Promise<ServerCounts> {
  return readServerCounts(await serverMetrics(client));
}

/** Asks the API server. */
export async function serverMetrics(client: ClusterClient): Promise<MetricsText> {
  const { body } = await client.request({ method: "GET", path: "/metrics", accept: "text/plain" });
  return parseMetrics(body.toString("utf8"));
}
