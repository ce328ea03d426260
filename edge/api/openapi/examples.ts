import type { errorMeanings } from "../api-route.ts";
import type { OpenApiSchema } from "./request-schemas.ts";
import type { ApiTypes, SchemaName } from "./schemas.ts";

const [tenantId, workloadRef, instanceId] = ["alice", "notes", "inst-alice-notes-x7k2p"];
const at = "2026-11-26T09:30:00.000Z";
const createdAt = "2026-11-26T09:30:00Z";
const sha256 = "4f1c0a7d9be2358f6a1d0c4b7e9f2a3c5d8e1b6f0a9c3e7d2b5f8a1c4e6d9b03";
const version = sha256.slice(0, 16);
const replica = "5f0c1a2b";

const workloadSpec: ApiTypes["WorkloadSpec"] = {
  image: { ref: "ghcr.io/acme/notes:1.4" },
  network: { access: "restricted", allowlist: ["api.example.com"], ports: [8080], expose: "link" },
  idle: { timeoutSeconds: 1800 },
  filesystem: { overlayDirs: ["/data"] },
};
const poolSpec: ApiTypes["PoolSpec"] = { workloadRef, size: 3 };
const triggerSpec: ApiTypes["TriggerSpec"] = {
  ...{ type: "cron", workloadRef, tenant: { static: tenantId } },
  config: { schedule: "0 3 * * *" },
};
const claim: ApiTypes["Claim"] = {
  ...{ tenantId, phase: "Active", instanceId, endpoint: { host: "10.1.0.12", port: 8080 } },
  ...{
    zone: "a",
    source: "pool+data",
    claimedAt: at,
    expiresAt: "2026-11-26T10:30:00Z",
    labels: { team: "red" },
    workloadRef,
  },
};
const listedClaim: ApiTypes["ListedClaim"] = {
  ...claim,
  ...{ name: "claim-alice-notes", uid: "0b7c2f5e-6a0d-4d0c-9a54-2f6a8a1f0f3e", createdAt, resume: true },
};
const instance: ApiTypes["Instance"] = {
  ...{ name: instanceId, phase: "Running", ready: true, restarts: 0, tenantId, workloadRef, ip: "10.1.0.12" },
  labels: {
    "claim.tenancy.dev/team": "red",
    ...{ "tenancy.dev/managed": "true", "tenancy.dev/tenant": tenantId, "tenancy.dev/workload": workloadRef },
  },
  ...{ createdAt, lastActivity: at, claimedAt: at },
};
const event: ApiTypes["ObjectEvent"] = {
  ...{ about: "instance", type: "Normal", reason: "Started", message: "Started container workload", count: 1 },
  at: createdAt,
};
const snapshot: ApiTypes["Snapshot"] = {
  ...{ tenantId, workloadRef, path: "/snapshots/alice/notes.tar.gz", sizeBytes: 1_048_576, sha256, createdAt: at },
};
const savedEntry = {
  ...({ type: "file", sizeBytes: 1250, mode: "0644", uid: 1000, gid: 1000, modifiedAt: at, sha256 } as const),
};
const key: ApiTypes["Key"] = {
  ...{ id: "k3v9q2m7x0a8b1c6", name: "alice's laptop", role: "tenant", tenants: [tenantId], workloads: ["web-*"] },
  ...{ createdAt, expiresAt: "2026-12-26T09:30:00.000Z" },
};
const delivery: ApiTypes["Deliveries"]["deliveries"][number] = {
  ...{ id: "nightly-2026-11-26T03:00", at, result: "answered", tenantId, status: 200, ms: 41.5 },
  ...{ source: "pool", instanceId },
};
const open = { generation: 1, createdAt };
const series = { since: createdAt, replica, stepSeconds: 60 };

const quotaLimits = {
  activeClaims: { limit: 2, used: 1 },
  vcpus: { limit: 4, used: 1 },
  memoryMb: { limit: 4096, used: 512 },
  startsPerMinute: { limit: 6 },
};

/** Sample responses, by schema name. */
export const examples: { readonly [Name in SchemaName]: ApiTypes[Name] } = {
  Error: { error: 'workload "notes" does not exist' },
  Health: { status: "ok" },
  Session: {
    asksForKey: true,
    active: true,
    expiresAt: "2026-11-26T21:30:00.000Z",
    role: "tenant",
    tenants: ["alice"],
  },
  Key: key,
  CreatedKey: { ...key, key: `tk_${key.id}_pHqX0m2Vv5Yk7cT1nZ8rB4wL6dJ3sF9gQaUeIoKxMhE` },
  Usage: {
    ...{ tenantId: "alice", sessions: 3, seconds: 5400.5, vcpuSeconds: 10_801, mibSeconds: 2_765_056 },
    snapshotByteHours: 25_165_824,
    sources: { pool: 2, "pool+data": 1 },
  },
  Stats: {
    instances: { total: 4, byPhase: { Running: 4 } },
    claims: { total: 1, byPhase: { Active: 1 } },
    snapshots: { archives: 1, bytes: 1_048_576 },
  },
  WorkloadSpec: workloadSpec,
  Workload: { name: workloadRef, spec: workloadSpec, status: { phase: "Ready" }, createdAt },
  PoolSpec: poolSpec,
  Pool: { name: workloadRef, spec: poolSpec, status: { phase: "Ready", ready: 3, warming: 0, desired: 3 }, createdAt },
  Build: { workload: workloadRef, state: "Built", startedAt: at, finishedAt: at, steps: 6, cached: 4 },
  Context: { sha256, sizeBytes: 20_480 },
  Snapshot: snapshot,
  SnapshotVersion: { ...snapshot, version, sha256, newest: true },
  SavedFile: { path: "data/notes/2026.md", ...savedEntry },
  SavedChange: { path: "data/notes/2026.md", change: "added", after: savedEntry },
  Claim: claim,
  Link: {
    url: "https://notes--alice.apps.example.com/?tenancy-token=eyJ0",
    ...{ expiresAt: "2026-11-26T10:30:00.000Z", tenantId, workloadRef },
  },
  ListedClaim: listedClaim,
  ClaimDetail: {
    ...listedClaim,
    ...{ requestedAt: at, resumedFrom: version, url: "https://notes--alice.apps.example.com/", events: [event] },
    timeline: [
      { step: "Requested", at },
      { step: "Seen", at: "2026-11-26T09:30:00.006Z" },
      { step: "Bound", at: "2026-11-26T09:30:00.014Z" },
      { step: "Active", at: "2026-11-26T09:30:00.096Z" },
    ],
  },
  ObjectEvent: event,
  Tenant: { tenantId, claims: [claim] },
  QuotaLimits: quotaLimits,
  TenantLimits: { tenantId, class: "free", limits: quotaLimits },
  TenantSummary: {
    ...{ tenantId, saved: { workloads: 1, versions: 3, bytes: 4_194_304 }, class: "free" },
    limits: { activeClaims: { limit: 2, used: 1 } },
  },
  Instance: instance,
  InstanceDetail: {
    ...instance,
    node: "node-1",
    containers: [{ name: "workload", image: "ghcr.io/acme/notes:1.4", state: "running", ready: true, restarts: 0 }],
    savedDirs: ["/data"],
    events: [event],
  },
  ClaimHistory: {
    ...series,
    sources: [{ source: "pool", claims: [2], p50Ms: [12], p99Ms: [31], hour: { claims: 2, p50Ms: 12, p99Ms: 31 } }],
    errors: [0],
    reasons: [],
  },
  PoolHistory: { ...series, ready: [3], lowest: [2], warming: [0], refilled: [2], hits: [2], misses: [0] },
  Process: {
    ...{ pid: 42, command: ["npm", "test"], cwd: "/app", tty: false, background: false, startedAt: at },
    ...{ state: "ended", endedAt: at, exitCode: 0, stdoutBytes: 6, stderrBytes: 0, stdout: "hello\n", stderr: "" },
  },
  InstanceFile: {
    ...{ path: "data/notes/2026.md", type: "file", sizeBytes: 1250, mode: "0644", uid: 1000, gid: 1000 },
    ...{ modifiedAt: at, etag: '"fe00-9844c3-4e2-18ec6847d1860793"' },
  },
  ExecOutcome: { stdout: "hello\n", stderr: "", exitCode: 0 },
  Deliveries: { replica, since: createdAt, deliveries: [delivery] },
  AuditLog: {
    ...{ replica, since: createdAt, omitted: 0 },
    records: [
      {
        ...{ time: at, requestId: `${replica}-42`, stage: "ResponseComplete", actor: { kind: "key", id: key.id } },
        ...{ address: "10.1.0.7", act: "change", method: "POST", route: "/api/v1/tenants/:id/claim" },
        object: { tenant: tenantId, workload: workloadRef, instance: instanceId },
        ...{ status: 201, outcome: "done", source: "pool", ms: 41.5 },
      },
    ],
  },
  TestDelivery: { ...delivery, test: true, contentType: "text/plain", body: "done" },
  TriggerSpec: triggerSpec,
  Trigger: { name: "nightly", spec: triggerSpec, status: { phase: "Active" }, createdAt },
  OpenWorkload: { name: workloadRef, ...open, phase: "Ready" },
  OpenPool: { name: workloadRef, ...open, workloadRef, size: 3, phase: "Ready", ready: 3, warming: 0 },
  OpenTrigger: { name: "nightly", ...open, type: "cron", workloadRef, phase: "Active" },
  Pong: { id: `${replica}-42`, type: "pong", time: at, fresh: true, versions: { claims: "1042" } },
};

/** Sample messages of errors, by status. */
export const errorExamples: Readonly<Record<keyof typeof errorMeanings, string>> = {
  400: "body.workload: is required",
  401: "missing API key: send the header Authorization: Bearer <TENANCY_API_KEY>",
  403: "a page of another site sent this request; add its origin to TENANCY_CORS_ORIGIN",
  404: examples.Error.error,
  405: "PATCH is not supported here; GET is",
  408: "body: did not arrive completely within 10 s",
  409: 'workload "notes" already exists; change it with PUT /api/v1/workloads/notes',
  410: `instance "${instanceId}" was replaced by another pod of its name; try again`,
  413: "body: is larger than 1048576 bytes",
  416: "/data/notes/2026.md: the file has 1250 bytes",
  426: "this is a WebSocket: connect to it with a ws:// address",
  429: "too many claims are starting for what the cluster can do at the moment; nothing was begun, try again in 2 s",
  500: `internal error; the server's log has details under request id ${replica}-42`,
  503: "the cluster cannot be reached now; try again shortly",
  504: 'workload "notes" is not ready for tenant "alice" after 30 s; the claim continues: call again to keep waiting',
  507: "/data/notes/2026.md: no space left on device",
};

function ofInside(base: string): Readonly<Record<string, object>> {
  return {
    [`POST ${base}/processes`]: { command: ["npm", "test"], cwd: "/app", timeoutSeconds: 300 },
    [`POST ${base}/processes/:pid/signal`]: { signal: "SIGTERM" },
  };
}

/** Sample request bodies, by route. */
export const requestExamples: Readonly<Record<string, object>> = {
  "POST /api/v1/tenants/:id/claim": {
    ...{ workload: workloadRef, resume: true, expiresInSeconds: 3600, zone: "a", labels: { team: "red" } },
  },
  "POST /api/v1/tenants/:id/extend": { workload: workloadRef, seconds: 3600 },
  "POST /api/v1/tenants/:id/release": { workload: workloadRef },
  "POST /api/v1/tenants/:id/checkpoint": { workload: workloadRef, name: "before-upgrade" },
  "POST /api/v1/tenants/:id/discard": { workload: workloadRef },
  "POST /api/v1/tenants/:id/links": { workload: workloadRef, expiresInSeconds: 60 },
  "POST /api/v1/instances/:id/exec": { command: ["ls", "-l", "/data"] },
  ...ofInside("/api/v1/instances/:id"),
  ...ofInside("/api/v1/tenants/:id/instances/:workload"),
  "POST /api/v1/workloads": { name: workloadRef, spec: workloadSpec },
  "PUT /api/v1/workloads/:name": { spec: workloadSpec },
  "POST /api/v1/pools": { name: workloadRef, spec: poolSpec },
  "PUT /api/v1/pools/:name": { spec: poolSpec },
  "POST /api/v1/triggers": { name: "nightly", spec: triggerSpec },
  "PUT /api/v1/triggers/:id": { spec: triggerSpec },
  "POST /api/v1/triggers/:id/test": { data: { note: "a test" } },
  "POST /api/v1/tenants/:id/snapshots/:workload/rollback": { version },
  "POST /api/v1/tenants/:id/snapshots/:workload/copy": { tenantId: "bob", version },
  "POST /api/v1/keys": { name: "alice's laptop", role: "tenant", tenants: [tenantId], expiresInSeconds: 2_592_000 },
  "POST /api/v1/session": { key: "the-value-of-TENANCY_API_KEY" },
};

const words: Readonly<Record<string, string>> = { tenantId, workload: workloadRef, instance: instanceId, id: key.id };

/** A sample with only the required fields, for schemas without one. */
export function leastOf(schema: OpenApiSchema, name = ""): unknown {
  const { enum: choices, type, required = [], properties = {}, additionalProperties } = schema;
  if (choices !== undefined) return choices[0];
  if (type === "array") return [];
  if (type !== "object") return words[name] ?? "";
  return Object.fromEntries(
    required.map((one) => [one, leastOf(properties[one] ?? (additionalProperties || {}), one)]),
  );
}
