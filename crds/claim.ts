import { type Static, Type } from "@sinclair/typebox";
import { claimInputsSchema } from "./claims/claim-inputs.ts";
import type { KubernetesObject } from "./kubernetes.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { rules, stringEnum, stringMap } from "./schema/schema.ts";
import { patternHints } from "./schema/schema-problems.ts";

export const claimSpecSchema = Type.Object(
  {
    tenantId: Type.String({
      description: "Identity of the tenant.",
      pattern: pattern.tenantId,
      maxLength: 63,
      ...rules({ rule: "self == oldSelf", message: "tenantId cannot change: delete the claim and create another one" }),
    }),
    workloadRef: Type.String({
      description: "Name of the workload.",
      pattern: pattern.subdomain,
      maxLength: 63,
      ...rules({
        rule: "self == oldSelf",
        message: "workloadRef cannot change: delete the claim and create another one",
      }),
    }),
    resume: Type.Optional(
      Type.Boolean({ description: "Whether to restore the tenant's saved files if there are any.", default: false }),
    ),
    resumeVersion: Type.Optional(
      Type.String({
        description:
          "Version of the saved files to restore: its SHA-256 or the first 16 digits; the newest by default.",
        pattern: pattern.archiveVersion,
        maxLength: 64,
      }),
    ),
    expiresAt: Type.Optional(
      Type.String({
        description:
          "When the claim is released, even while it is in use, RFC 3339; what happens to the files is the workload's idle.action. Without it the claim does not expire.",
        format: "date-time",
        pattern: pattern.time,
        maxLength: 40,
      }),
    ),
    zone: Type.Optional(
      Type.String({
        description:
          "Zone that the instance should run in, a value of the nodes' label topology.kubernetes.io/zone. It is a preference: if no warm pod is in the zone, the claim gets another one. A changed zone is for the claim's next pod.",
        pattern: pattern.zone,
        maxLength: 63,
      }),
    ),
    labels: Type.Optional(
      stringMap(
        { pattern: pattern.labelValue, maxLength: 63 },
        {
          description:
            "Labels of the claim's pods, where each key follows the prefix claim.tenancy.dev/. Not for secrets: everyone who may read pods or events sees them.",
          maxProperties: 16,
          ...rules({
            rule: `self.all(key, key.matches(r'${pattern.labelName}'))`,
            message: `each key must be ${patternHints[pattern.labelName]}`,
          }),
        },
      ),
    ),
    inputs: Type.Optional(claimInputsSchema),
  },
  {
    description: "A tenant's lease on an instance of a workload.",
    ...rules(
      {
        rule: "has(self.inputs) == has(oldSelf.inputs) && (!has(self.inputs) || self.inputs == oldSelf.inputs)",
        message: "spec.inputs: cannot change: delete the claim and create another one",
      },
      {
        rule: "has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels)",
        message: "spec.labels: cannot change: delete the claim and create another one",
      },
    ),
  },
);

export const claimStatusSchema = Type.Object(
  {
    phase: stringEnum(["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"], {
      description: "Phase of the claim.",
      default: "Pending",
    }),
    reason: Type.Optional(Type.String({ description: "One word for programs.", maxLength: 256 })),
    message: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    instanceId: Type.Optional(Type.String({ description: "Name of the pod.", maxLength: 253 })),
    instanceUid: Type.Optional(Type.String({ description: "UID of that pod.", maxLength: 64 })),
    resources: Type.Optional(
      Type.Object(
        {
          vcpus: Type.Number({ description: "CPU count, which may have thousandths.", minimum: 0 }),
          memoryMb: Type.Integer({ description: "Memory in MB.", minimum: 0 }),
        },
        { description: "What the instance may use, which its tenant's quota and usage records count." },
      ),
    ),
    endpoint: Type.Optional(
      Type.Object(
        {
          host: Type.String({ description: "IP of the pod.", maxLength: 253 }),
          port: Type.Integer({ description: "Port of the container.", minimum: 1, maximum: 65535 }),
        },
        { description: "Where the instance listens." },
      ),
    ),
    zone: Type.Optional(
      Type.String({
        description: "Zone of the node that the instance runs on; absent if the node has none, or if it is not known.",
        maxLength: 63,
      }),
    ),
    source: Type.Optional(
      stringEnum(["existing", "pool", "pool+data", "cold", "cold+data"], {
        description: "How the instance was found: in a pool or started cold, and whether files were restored.",
      }),
    ),
    resumedFrom: Type.Optional(
      Type.String({
        description:
          "SHA-256 of the archive that the session began with; none if the claim requested files and none were saved.",
        maxLength: 64,
      }),
    ),
    restoredFrom: Type.Optional(
      Type.String({
        description:
          "SHA-256 of the checkpoint that was restored into the instance, since the session lost the one before.",
        maxLength: 64,
      }),
    ),
    overlayId: Type.Optional(
      Type.String({
        description:
          "The pod's uid and, after a dot, an id of its overlay directories; absent if the pod lost its directories.",
        maxLength: 128,
      }),
    ),
    programRun: Type.Optional(
      Type.String({
        description:
          "The run of the pod's container in which the operator started the program, or told it of the claim; absent where it does not do that.",
        maxLength: 128,
      }),
    ),
    claimedAt: Type.Optional(
      Type.String({ description: "When the instance was bound, ISO 8601.", format: "date-time" }),
    ),
    usageSince: Type.Optional(
      Type.String({
        description: "From when usage records count the instance, ISO 8601; absent while nothing is counted.",
        format: "date-time",
      }),
    ),
    expiresAt: Type.Optional(
      Type.String({ description: "The expiry that the operator follows, RFC 3339.", format: "date-time" }),
    ),
    attempt: Type.Optional(
      Type.String({ description: "Value of the attempt annotation that this status belongs to.", maxLength: 256 }),
    ),
    observedGeneration: Type.Optional(
      Type.Integer({ description: "Generation of the spec that this status describes." }),
    ),
    podIncarnation: Type.Optional(
      Type.Integer({ description: "Number of pods that the claim has been given.", minimum: 0 }),
    ),
    snapshot: Type.Optional(
      Type.Object(
        {
          sha256: Type.String({ description: "SHA-256 of the archive, in hexadecimal digits.", maxLength: 64 }),
          sizeBytes: Type.Integer({ description: "Size of the archive in bytes.", minimum: 0 }),
          createdAt: Type.String({ description: "When the files were saved, ISO 8601.", format: "date-time" }),
        },
        { description: "The archive with the files that the release saved." },
      ),
    ),
    checkpoint: Type.Optional(
      Type.Object(
        {
          request: Type.String({
            description: "Value of the annotation tenancy.dev/checkpoint that asked for it.",
            maxLength: 256,
          }),
          sha256: Type.Optional(
            Type.String({ description: "SHA-256 of the saved version; absent if it failed.", maxLength: 64 }),
          ),
          sizeBytes: Type.Optional(Type.Integer({ description: "Size of the archive in bytes.", minimum: 0 })),
          createdAt: Type.Optional(
            Type.String({ description: "When these files were saved, ISO 8601.", format: "date-time" }),
          ),
          reason: Type.Optional(
            stringEnum(
              ["CheckpointFailed", "InvalidName", "NameTaken", "NoFiles", "SnapshotQuotaExceeded", "TooManyNames"],
              { description: "Why it failed; absent if it was made." },
            ),
          ),
          message: Type.Optional(Type.String({ description: "Why it failed, for people.", maxLength: 1024 })),
        },
        { description: "The last checkpoint that was asked for." },
      ),
    ),
    sessionSnapshot: Type.Optional(
      Type.String({
        description:
          "SHA-256 of the archive with the files of this session, saved when its pod was taken away. The claim's next pod gets them.",
        maxLength: 64,
      }),
    ),
    sessionStart: Type.Optional(
      Type.Integer({
        description:
          "podIncarnation of the first pod of this session, if the claim's pods before it were destroyed on request; 0 by default.",
        minimum: 0,
      }),
    ),
    files: Type.Optional(
      stringEnum(["saved", "unchanged", "notSaved", "discarded"], {
        description:
          "What happened to the files at the release: saved in a new archive, unchanged since the newest archive, notSaved because they were lost before, or discarded on request. Absent before the release, and if the workload saves no files.",
      }),
    ),
    // A list, since a merge patch of an object would keep steps of an earlier start.
    timeline: Type.Optional(
      Type.Array(
        Type.Object(
          {
            step: stringEnum(
              [
                "Requested",
                "Seen",
                "Bound",
                "Scheduled",
                "FilesFrom",
                "FilesTo",
                "InputsGiven",
                "ProgramStarted",
                "OnClaimCalled",
                "Started",
                "Ready",
                "Active",
                "Error",
              ],
              { description: "The step." },
            ),
            at: Type.String({ description: "Time in ISO 8601 with milliseconds.", format: "date-time" }),
          },
          { description: "One step." },
        ),
        {
          description: "When each step of the last start was reached, as recorded by edge and operator.",
          maxItems: 16,
        },
      ),
    ),
    conditions: Type.Optional(conditionsSchema),
  },
  { description: "The operator's result.", default: { phase: "Pending", conditions: notObserved } },
);

export type ClaimSpec = Static<typeof claimSpecSchema>;

export type ClaimStatus = Static<typeof claimStatusSchema>;

export type ClaimPhase = ClaimStatus["phase"];

/** How a claim's instance was found. */
export type ClaimSource = NonNullable<ClaimStatus["source"]>;

/** What happened to a claim's files at its release. */
export type ReleasedFiles = NonNullable<ClaimStatus["files"]>;

/** A TenancyClaim. */
export interface Claim extends KubernetesObject {
  spec: ClaimSpec;
  status?: ClaimStatus;
}
