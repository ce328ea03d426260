import { pattern } from "../../../crds/schema/patterns.ts";
import { eventTypes } from "../events/event-hub.ts";
import type { OpenApiSchema } from "./request-schemas.ts";
import { doneSchema, type SchemaName, workloadDeleted } from "./schemas.ts";

const flag = (description: string): OpenApiSchema => ({ type: "boolean", description, default: false });
const list: OpenApiSchema = { type: "array", items: { type: "object", additionalProperties: {} } };
const tenantId: OpenApiSchema = { type: "string", pattern: pattern.tenantId, maxLength: 63 };
const name: OpenApiSchema = { type: "string", pattern: pattern.subdomain, maxLength: 63 };
const eventWord = `(?:instance|claim|${eventTypes.join("|").replaceAll(".", "\\.")})`;

const named = (specName: string) =>
  closed({
    type: "object",
    required: ["name", "spec"],
    properties: {
      name: { ...name, description: "A DNS-1123 name of at most 63 characters." },
      spec: { $ref: `#/components/schemas/${specName}` },
      status: { description: "Passed over, so that what was read can be sent back." },
      createdAt: { description: "Passed over, so that what was read can be sent back." },
    },
  });
const workloadRef = {
  type: "object",
  anyOf: [{ required: ["workload"] }, { required: ["workloadRef"] }],
  properties: {
    workload: { ...name, description: "The workload." },
    workloadRef: { ...name, description: "An alias of `workload`; where both are there, they have to be the same." },
  },
} satisfies OpenApiSchema;

/** A body whose unknown fields are refused. */
function closed(schema: OpenApiSchema): OpenApiSchema {
  return { ...schema, additionalProperties: false };
}

/** Every documented route, by `METHOD path` as the route table has it. */
export const operations: Readonly<Record<string, Operation>> = {
  "GET /api/v1/health": { summary: "Whether the process is alive", answer: "Health" },
  "GET /api/v1/stats": { summary: "Instances and claims by phase", answer: "Stats", errors: [503] },

  "POST /api/v1/tenants/:id/claim": {
    summary: "Claim a workload for a tenant",
    description:
      "Creates the claim, or takes the one that is there, and waits until it is Active, for at most 30 seconds. After a 504 the claim goes on: call again to keep waiting. A release of the claim meanwhile is a 409; one that was under way before is waited out.",
    body: closed({
      ...workloadRef,
      properties: {
        ...workloadRef.properties,
        resume: {
          oneOf: [
            { type: "boolean" },
            closed({
              type: "object",
              properties: { version: { type: "string", pattern: pattern.archiveVersion } },
              required: ["version"],
            }),
          ],
          default: false,
          description:
            "Whether to restore what was saved at the last release, or which version: the SHA-256 of a snapshot or its first 16 digits. On a claim that is Active without those files the answer is 409.",
        },
      },
    }),
    status: 201,
    answer: "Claim",
    errors: [404, 408, 409, 413, 503, 504],
  },
  "POST /api/v1/tenants/:id/release": {
    summary: "Release a tenant's claim",
    description: "Deletes the claim; the tenant's files are saved, and the pod goes.",
    query: { wait: flag("Whether to wait until the claim is gone.") },
    body: closed(workloadRef),
    answer: doneSchema("released", "tenantId"),
    errors: [404, 408, 413, 503, 504],
  },
  "GET /api/v1/tenants/:id": { summary: "One tenant and its claims", answer: "Tenant", errors: [503] },
  "GET /api/v1/tenants": { summary: "All tenants that hold a claim", answer: ["Tenant"], errors: [503] },

  "GET /api/v1/instances": { summary: "All managed pods", answer: ["Instance"], errors: [503] },
  "GET /api/v1/instances/:id": { summary: "One managed pod", answer: "Instance", errors: [404, 503] },
  "GET /api/v1/instances/:id/logs": {
    summary: "What the workload's container printed",
    query: {
      tail: { type: "integer", minimum: 0, maximum: 100000, default: 200, description: "The last lines, this many." },
      follow: flag("Whether to go on with what is printed from now on."),
      previous: flag("Whether it is about the run before the container's last restart."),
    },
    answer: "text/plain",
    errors: [404, 409, 503, 504],
  },
  "POST /api/v1/instances/:id/exec": {
    summary: "Run a command in the workload's container",
    description: "409 until a claim is Active with the instance, and in a warm pod that nobody has claimed.",
    body: closed({
      type: "object",
      required: ["command"],
      properties: {
        command: {
          type: "array",
          minItems: 1,
          maxItems: 1024,
          not: { prefixItems: [{ const: "" }] },
          items: { type: "string", pattern: pattern.noNull },
          description: "Program and arguments, at most 100000 bytes in all; no shell.",
        },
        timeoutSeconds: { type: "integer", minimum: 1, maximum: 3600, default: 60, description: "After this, 504." },
      },
    }),
    answer: "ExecOutcome",
    errors: [404, 408, 409, 413, 503, 504],
  },
  "POST /api/v1/instances/:id/destroy": {
    summary: "Delete a pod at once and save nothing",
    description: "Its claim stays in the phase it had. Release is the graceful path.",
    answer: doneSchema("destroyed", "instance"),
    errors: [404, 503],
  },
  "POST /api/v1/instances/:id/activity": {
    summary: "Report that a pod is in use",
    description: "Puts its idle release off. Claim calls and exec count by themselves.",
    answer: doneSchema("active", "instance"),
    errors: [404, 409, 503],
  },

  "POST /api/v1/workloads": {
    summary: "Create a workload",
    body: named("WorkloadSpec"),
    status: 201,
    answer: "Workload",
    errors: [408, 409, 413, 503],
  },
  "GET /api/v1/workloads": { summary: "All workloads", answer: ["Workload"], errors: [503] },
  "GET /api/v1/workloads/:name": { summary: "One workload", answer: "Workload", errors: [404, 503] },
  "PUT /api/v1/workloads/:name": {
    summary: "Replace a workload's spec",
    body: { ...named("WorkloadSpec"), required: ["spec"] },
    answer: "Workload",
    errors: [404, 408, 409, 413, 503],
  },
  "DELETE /api/v1/workloads/:name": {
    summary: "Delete a workload",
    description: "It goes when no claim and no pool uses it any more; while some do, the answer names them.",
    answer: workloadDeleted,
    errors: [404, 503],
  },
  "GET /api/v1/workloads/:name/snapshots": {
    summary: "What was saved of tenants' files under a workload",
    description: "By tenant. What is left of a deleted workload is in the list of all.",
    query: { versions: flag("Whether older versions are listed too.") },
    answer: ["Snapshot"],
    errors: [404, 503, 504],
  },
  "GET /api/v1/snapshots": {
    summary: "All that was saved of tenants' files",
    description: "By tenant, then workload, also of workloads that are deleted.",
    query: { versions: flag("Whether older versions are listed too.") },
    answer: ["Snapshot"],
    errors: [503, 504],
  },
  "DELETE /api/v1/tenants/:id/snapshots/:workload": {
    summary: "Erase what was saved of a tenant's files, with all versions",
    description:
      "A claim on the workload keeps its running files, and its next release saves them anew; a later claim with `resume` finds nothing. While a release is under way, or has failed and is tried again, the answer is 409, since that would write the snapshot anew. The workload need not exist any more.",
    answer: doneSchema("deleted", "tenantId", "workload"),
    errors: [404, 409, 503, 504],
  },

  "POST /api/v1/triggers": {
    summary: "Create a trigger",
    body: named("TriggerSpec"),
    status: 201,
    answer: "Trigger",
    errors: [408, 409, 413, 503],
  },
  "GET /api/v1/triggers": { summary: "All triggers", answer: ["Trigger"], errors: [503] },
  "GET /api/v1/triggers/:id": { summary: "One trigger", answer: "Trigger", errors: [404, 503] },
  "DELETE /api/v1/triggers/:id": {
    summary: "Delete a trigger",
    answer: doneSchema("deleted"),
    errors: [404, 503],
  },

  "GET /api/v1/debug/resources": {
    summary: "Everything in the namespace, as the cluster holds it",
    description: "Never Secrets.",
    answer: {
      type: "object",
      description: "Kubernetes objects, by kind.",
      required: [
        "pods",
        "services",
        "configMaps",
        "persistentVolumeClaims",
        "networkPolicies",
        "workloads",
        "pools",
        "claims",
        "triggers",
      ],
      additionalProperties: list,
    },
    errors: [503],
  },
  "GET /ws": {
    summary: "Changes of instances and claims, as they happen",
    description:
      "A WebSocket of JSON messages `{id, type, time, object}`; `object` is an Instance with the service's own labels, or a Claim without its `message`. It may be set to ask for the key, which then comes as the header or as the subprotocol `tenancy.bearer.<base64url of the key>` beside `tenancy.events`. A client that connects again with `since` gets what it missed, or one message of type `resync` where that is not kept: read the lists anew then.",
    query: {
      tenant: { ...tenantId, description: "Only this tenant's." },
      workload: { ...name, description: "Only this workload's." },
      type: {
        type: "string",
        pattern: `^${eventWord}(?:,${eventWord})*$`,
        description: `Only these, by commas: instance, claim, ${eventTypes.join(", ")}.`,
      },
      since: { type: "string", minLength: 1, description: "The id of the last message that was seen." },
    },
    status: 101,
    answer: "websocket",
    errors: [403, 426, 503],
  },
  "GET /api/v1/openapi.json": {
    summary: "This document",
    answer: { type: "object", additionalProperties: {}, description: "An OpenAPI 3.1 document." },
  },
  "GET /docs": { summary: "This document as a page", answer: "text/html" },
};

/** A schema in place, or the name of one that several operations share. */
export type SchemaUse = OpenApiSchema | SchemaName | readonly [SchemaName];

/** What the document says of a route beyond what the route table knows. */
export interface Operation {
  readonly summary: string;
  readonly description?: string;
  /** Query parameters. */
  readonly query?: Readonly<Record<string, OpenApiSchema>>;
  readonly body?: SchemaUse;
  /** The status of success. @default 200 */
  readonly status?: 101 | 200 | 201;
  /** What success answers; text where it is no JSON. `[name]` is a list. */
  readonly answer: SchemaUse | "text/plain" | "text/html" | "websocket";
  /** Statuses of errors that this route can answer, beyond 400, 401, 403, 405 and 500. */
  readonly errors?: readonly (keyof typeof errorMeanings)[];
}

/** What each status of an error means. */
export const errorMeanings = {
  400: "The input is not valid; the message names the place.",
  401: "The API key is missing or wrong.",
  403: "A page of another site sent the request, or it names another host than this machine.",
  404: "There is no such object.",
  405: "The route does not have this method; `Allow` lists those that it has.",
  408: "The body has not arrived whole within 10 seconds.",
  409: "The object exists already, or its state does not allow this.",
  413: "The body is over 1 MiB.",
  426: "The request is no WebSocket handshake.",
  500: "Internal error; the server's log tells more under the request id.",
  503: "The cluster cannot be reached, or has no room; try again later.",
  504: "The time is up; what was asked for may still go on.",
} as const;
