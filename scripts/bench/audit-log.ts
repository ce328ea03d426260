import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import type { ServerCounts } from "./environment/server-counts.ts";
import type { RequestsPerClaim } from "./report/summarise.ts";

/** Requests of one kind that one of our programs made. */
export interface RequestCount {
  /** `operator` or `edge`. */
  readonly client: string;
  readonly verb: string;
  /** The resource with its subresource, such as `tenancyclaims/status`. */
  readonly resource: string;
  /** Whether it refilled a pool, and so does not belong to a claim. */
  readonly refill: boolean;
  readonly count: number;
}

// A leader's heartbeat and the watches exist independently of claims.
const NEVER_A_CLAIMS = new Set(["leases"]);

/**
 * Counts the requests of operator and edge to the API server in an audit log.
 *
 * Requests about a pool's status, and about pods that no claim got, count as refill. The caller begins to count when
 * the pool is full, so all writes to a pod that a claim got belong to that claim.
 *
 * @param log lines of JSON, one per event
 * @param given the names of the pods that the counted claims got
 */
export function countRequests(log: string, given: ReadonlySet<string>): RequestCount[] {
  const counts = new Map<string, RequestCount>();
  for (const line of log.split("\n")) {
    if (line === "") continue;
    const { stage, verb, userAgent, objectRef } = JSON.parse(line) as AuditEvent;
    const client = /^tenancy-(operator|edge)\//.exec(userAgent ?? "")?.[1];
    if (stage !== "ResponseComplete" || client === undefined || objectRef === undefined) continue;
    if (verb === "watch" || NEVER_A_CLAIMS.has(objectRef.resource)) continue;
    const { subresource, name } = objectRef;
    const resource = subresource === undefined ? objectRef.resource : `${objectRef.resource}/${subresource}`;
    const isOtherPod = objectRef.resource === "pods" && name !== undefined && !given.has(name);
    const refill = isOtherPod || objectRef.resource === "tenancypools";
    const key = JSON.stringify([client, verb, resource, refill]);
    counts.set(key, { client, verb, resource, refill, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()].sort((a, b) => Number(a.refill) - Number(b.refill) || b.count - a.count);
}

/** The part of an audit event that is counted, https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/ */
interface AuditEvent {
  readonly stage: string;
  readonly verb: string;
  readonly userAgent?: string;
  readonly objectRef?: {
    readonly resource: string;
    readonly subresource?: string;
    readonly name?: string;
  };
}

/** The audit policy: one line per request at its end, without bodies. */
export const AUDIT_POLICY = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
`;

/** The requests to the API server for claims of one path. */
export interface CountedPath {
  /** How many claims were counted. */
  readonly claims: number;
  readonly requests: readonly RequestCount[];
  /** The API server's work during a claim, whichever client caused it. */
  readonly server: ServerCounts;
}

const READS = new Set(["get", "list"]);

/** The requests per claim of `claims` claims, without the refill of the pool. */
export function requestsPerClaim(counts: readonly RequestCount[], claims: number): RequestsPerClaim {
  const total = (isRead: boolean) =>
    counts
      .filter(({ refill, verb }) => !refill && READS.has(verb) === isRead)
      .reduce((sum, { count }) => sum + count, 0);
  return { writes: total(false) / claims, reads: total(true) / claims };
}

/** Reads a log that grows. */
interface LogReader {
  /** The complete lines since the last call. */
  next(): string;
}

/** Reads from the start of the file. A file that does not exist yet has no lines. */
export function createLogReader(path: string): LogReader {
  let position = 0;
  return {
    next() {
      if (!existsSync(path)) return "";
      const file = openSync(path, "r");
      try {
        const buffer = Buffer.alloc(Math.max(0, fstatSync(file).size - position));
        const read = readSync(file, buffer, 0, buffer.length, position);
        const end = buffer.subarray(0, read).lastIndexOf("\n") + 1;
        position += end;
        return buffer.toString("utf8", 0, end);
      } finally {
        closeSync(file);
      }
    },
  };
}
