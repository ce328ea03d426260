import { PORT_NAME, UNNAMED_PORT } from "../../../crds/network.ts";
import { CLOSED_KEYS, SAFE_TO_EVICT } from "../../../crds/pod-metadata.ts";
import { CLOSED_TAINTS, LEAVING_TAINTS } from "../../../crds/scheduling.ts";
import { imageReferencePattern } from "../../../crds/schema/image-reference.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import type { JsonSchema } from "../../../crds/schema/schema.ts";
import { KERNEL_DIRECTORIES, OWN_DIRECTORIES } from "../../../crds/volumes.ts";
import { healthChecks } from "../../../crds/workload.ts";

/** Keywords of JSON Schema 2020-12 that Kubernetes' structural schemas do not have. */
interface MoreWords {
  readonly $ref?: string;
  readonly const?: string | boolean;
  readonly not?: OpenApiSchema;
  readonly items?: OpenApiSchema;
  readonly oneOf?: readonly OpenApiSchema[];
  readonly allOf?: readonly OpenApiSchema[];
  readonly anyOf?: readonly OpenApiSchema[];
  readonly prefixItems?: readonly OpenApiSchema[];
  readonly propertyNames?: OpenApiSchema;
  readonly uniqueItems?: boolean;
  readonly additionalProperties?: OpenApiSchema | false;
  readonly properties?: Readonly<Record<string, OpenApiSchema>>;
  readonly required?: readonly string[];
}

/** A schema of the document (https://spec.openapis.org/oas/v3.1.1.html#schema-object). */
export type OpenApiSchema = Omit<JsonSchema, keyof MoreWords> & MoreWords;

const notAnAddress = { not: { pattern: "^[0-9.]+$|[^.]{64}" } };
const variableName = "^(?!TENANCY_)[A-Za-z_][A-Za-z0-9_]*$";
const notUpwards = { not: { pattern: "^/|(^|/)\\.\\.(/|$)" } };
const ofType = (type: string, then: OpenApiSchema): OpenApiSchema => ({
  anyOf: [{ properties: { type: { not: { const: type } } } }, then],
});
const needs = (...required: string[]): OpenApiSchema => ({ required });
const namesProgram: OpenApiSchema = { not: { prefixItems: [{ const: "" }] } };

/** For what a claim gives to its program. */
function ofInputs(path: string): Readonly<Record<string, OpenApiSchema>> {
  return {
    [`${path}.env`]: { propertyNames: { pattern: variableName } },
    [`${path}.files[]`]: {
      allOf: [{ oneOf: [needs("content"), needs("base64"), needs("configMapRef"), needs("secretRef")] }],
    },
    [`${path}.files[].path`]: {
      not: { pattern: "/$|^/(proc|sys|dev|\\.tenancy|(var/)?run/tenancy)(/|$)|^/(var/)?run$" },
    },
  };
}

const labelKeys: OpenApiSchema = { propertyNames: { pattern: pattern.labelKey } };
const podKeys: OpenApiSchema = {
  propertyNames: {
    pattern: pattern.labelKey,
    anyOf: [{ const: SAFE_TO_EVICT }, { not: { pattern: CLOSED_KEYS } }],
  },
};
const ofEffect = (effect: string): OpenApiSchema => ({
  required: ["effect"],
  properties: { effect: { const: effect } },
});
/** A requirement of labels: which operators have values. */
const requirement: OpenApiSchema = {
  anyOf: [
    { ...needs("values"), properties: { operator: { enum: ["In", "NotIn"] }, values: { minItems: 1 } } },
    { properties: { operator: { enum: ["Exists", "DoesNotExist"] }, values: { maxItems: 0 } } },
  ],
};
const nodeRequirement: OpenApiSchema = {
  anyOf: [
    ...(requirement.anyOf ?? []),
    {
      ...needs("values"),
      properties: {
        operator: { enum: ["Gt", "Lt"] },
        values: { minItems: 1, maxItems: 1, items: { pattern: "^[0-9]+$" } },
      },
    },
  ],
};

function nodeTerms(path: string): Readonly<Record<string, OpenApiSchema>> {
  return {
    [`${path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[]`]: nodeRequirement,
    [`${path}.preferredDuringSchedulingIgnoredDuringExecution[].preference.matchExpressions[]`]: nodeRequirement,
  };
}

function podSelector(path: string): Readonly<Record<string, OpenApiSchema>> {
  return { [`${path}.matchLabels`]: labelKeys, [`${path}.matchExpressions[]`]: requirement };
}

function podTerms(path: string): Readonly<Record<string, OpenApiSchema>> {
  return {
    ...podSelector(`${path}.requiredDuringSchedulingIgnoredDuringExecution[].labelSelector`),
    ...podSelector(`${path}.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.labelSelector`),
  };
}

/**
 * JSON Schema of what `crds/validate-*.ts` refuse in addition to the kinds' schemas, by path in the spec; a test
 * compares both. The descriptions contain what no schema can express.
 */
const beyond: Readonly<Record<string, OpenApiSchema>> = {
  WorkloadSpec: {
    not: {
      properties: {
        entrypoint: { required: ["start"], properties: { start: { const: "OnClaim" } } },
        filesystem: { required: ["saveWhileRunning"], properties: { saveWhileRunning: { const: true } } },
      },
      required: ["entrypoint", "filesystem"],
    },
  },
  "WorkloadSpec.image.ref": { pattern: imageReferencePattern },
  "WorkloadSpec.image": {
    anyOf: [needs("dockerfile"), { properties: { args: { maxProperties: 0 } }, not: needs("context") }],
    allOf: [{ anyOf: [needs("ref"), { not: needs("pullSecrets") }] }],
  },
  // What no schema can say of requests: they must not be higher than the limits.
  "WorkloadSpec.resources": { not: needs("vcpus", "milliCpus") },
  "WorkloadSpec.resources.extended": {
    propertyNames: { pattern: pattern.resourceName, not: { pattern: "kubernetes\\.io/" } },
  },
  "WorkloadSpec.volumes[].mountPath": {
    not: { anyOf: [{ pattern: KERNEL_DIRECTORIES }, { pattern: OWN_DIRECTORIES }] },
  },
  "WorkloadSpec.volumes[].image.reference": { pattern: imageReferencePattern },
  "WorkloadSpec.scheduling.nodeSelector": labelKeys,
  "WorkloadSpec.scheduling.priorityClassName": { not: { pattern: "^system-" } },
  "WorkloadSpec.scheduling.tolerations[]": {
    allOf: [
      {
        anyOf: [{ properties: { operator: { const: "Equal" } } }, { properties: { value: { maxLength: 0 } } }],
      },
      { anyOf: [{ not: needs("tolerationSeconds") }, ofEffect("NoExecute")] },
      {
        anyOf: [
          { properties: { key: { not: { pattern: CLOSED_TAINTS } } } },
          { ...ofEffect("NoExecute"), properties: { effect: { const: "NoExecute" }, key: { enum: LEAVING_TAINTS } } },
        ],
      },
    ],
  },
  ...nodeTerms("WorkloadSpec.scheduling.affinity.nodeAffinity"),
  ...podTerms("WorkloadSpec.scheduling.affinity.podAffinity"),
  ...podTerms("WorkloadSpec.scheduling.affinity.podAntiAffinity"),
  ...podSelector("WorkloadSpec.scheduling.topologySpreadConstraints[].labelSelector"),
  "WorkloadSpec.scheduling.topologySpreadConstraints[]": {
    anyOf: [{ not: needs("minDomains") }, { properties: { whenUnsatisfiable: { const: "DoNotSchedule" } } }],
  },
  "WorkloadSpec.image.dockerfile": notUpwards,
  "WorkloadSpec.image.context.git.ref": { not: { pattern: "\\.\\." } },
  "WorkloadSpec.image.context.git.path": notUpwards,
  "WorkloadSpec.image.args": { propertyNames: { pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$" } },
  "WorkloadSpec.network": {
    anyOf: [
      { required: ["access"], properties: { access: { const: "restricted" } } },
      { properties: { allowlist: { maxItems: 0 }, credentials: { maxItems: 0 } } },
    ],
  },
  "WorkloadSpec.podLabels": podKeys,
  "WorkloadSpec.podAnnotations": podKeys,
  "WorkloadSpec.network.portNames": {
    propertyNames: {
      maxLength: 15,
      allOf: PORT_NAME.map((form) => ({ pattern: form })),
      not: { pattern: UNNAMED_PORT },
    },
  },
  "WorkloadSpec.network.allowlist[]": notAnAddress,
  "WorkloadSpec.network.credentials[].domain": notAnAddress,
  "WorkloadSpec.filesystem": {
    anyOf: [
      { not: { required: ["preSave"] } },
      { required: ["overlayDirs"], properties: { overlayDirs: { minItems: 1 } } },
    ],
  },
  "WorkloadSpec.filesystem.checkpointSeconds": { anyOf: [{ maximum: 0 }, { minimum: 30 }] },
  "WorkloadSpec.filesystem.overlayDirs[]": { not: { pattern: "^/(proc|sys|dev|\\.tenancy)(/|$)" } },
  "WorkloadSpec.filesystem.preSave.command": namesProgram,
  "WorkloadSpec.health": {
    anyOf: [
      { not: { anyOf: healthChecks.map((check) => needs(check)) } },
      { oneOf: healthChecks.map((check) => needs(check)), properties: { readyWhen: { const: "Healthy" } } },
    ],
  },
  "WorkloadSpec.health.exec.command": namesProgram,
  "WorkloadSpec.entrypoint": {
    anyOf: [{ not: needs("onClaim") }, { properties: { start: { const: "Warm" } } }],
  },
  "WorkloadSpec.entrypoint.onClaim": { oneOf: [needs("exec"), needs("httpPost")] },
  "WorkloadSpec.entrypoint.onClaim.exec.command": namesProgram,
  "WorkloadSpec.entrypoint.env": { propertyNames: { pattern: "^[-._a-zA-Z][-._a-zA-Z0-9]*$" } },
  // What no schema can say of minSize: it must not be greater than maxSize.
  PoolSpec: {
    anyOf: [
      needs("maxSize"),
      { not: { anyOf: ["minSize", "target", "schedule", "scaleDownAfterSeconds"].map((name) => needs(name)) } },
    ],
    allOf: [{ oneOf: [needs("size"), needs("maxSize")] }],
  },
  "PoolSpec.target": { allOf: [{ oneOf: [needs("idlePercent"), needs("hitRate"), needs("p99Ms")] }] },
  ...ofInputs("ClaimInputs"),
  "ClaimInputs.secrets": { propertyNames: { pattern: variableName, maxLength: 253 } },
  ...ofInputs("TriggerSpec.claim.inputs"),
  "TriggerSpec.claim.labels": { propertyNames: { pattern: pattern.labelName } },
  TriggerSpec: {
    not: needs("signing", "driver"),
    allOf: [
      ofType("webhook", { properties: { config: needs("path") } }),
      ofType("messenger", {
        properties: {
          config: needs("botTokenSecretRef"),
          tenant: { properties: { from: { enum: ["chatId", "userId", "usernameOrId"] } } },
        },
      }),
      ofType("cron", {
        properties: {
          config: { required: ["schedule"], properties: { schedule: { pattern: "^\\s*\\S+(\\s+\\S+){4}\\s*$" } } },
          tenant: { required: ["static"] },
        },
      }),
    ],
  },
  "TriggerSpec.guards[]": {
    allOf: [
      ofType("allowlist", { properties: { config: needs("tenantIds") } }),
      ofType("api", { properties: { config: needs("url") } }),
    ],
  },
};
/**
 * The schema of a request: the kind's own, the additional rules, and no unknown fields.
 *
 * Client generators make types of it (test/cluster/rest/openapi-client.test.ts). They unite an object with the
 * alternatives of `anyOf` beside it, which is any value, so alternatives are inside `allOf`.
 */
export function requestSchema(schema: JsonSchema, path: string): OpenApiSchema {
  const { properties, items, additionalProperties, oneOf, ...words } = schema;
  const isFree = words["x-kubernetes-preserve-unknown-fields"] === true;
  const plain = Object.fromEntries(Object.entries(words).filter(([word]) => !word.startsWith("x-kubernetes-")));
  const listType = words["x-kubernetes-list-type"];
  const { anyOf, allOf = [], ...more } = beyond[path] ?? {};
  const all = [...(oneOf === undefined ? [] : [{ oneOf }]), ...(anyOf === undefined ? [] : [{ anyOf }]), ...allOf];
  return {
    ...plain,
    ...(properties !== undefined && {
      additionalProperties: false as const,
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => [name, requestSchema(field, `${path}.${name}`)]),
      ),
    }),
    ...(additionalProperties !== undefined && {
      additionalProperties: requestSchema(additionalProperties, `${path}{}`),
    }),
    ...(isFree && { additionalProperties: {} }),
    ...(items !== undefined && { items: requestSchema(items, `${path}[]`) }),
    ...((listType === "set" || listType === "map") && { uniqueItems: true }),
    ...more,
    ...(all.length > 0 && { allOf: all }),
  };
}
