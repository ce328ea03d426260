import { type Static, Type } from "@sinclair/typebox";
import type { KubernetesObject } from "./kubernetes.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { rules, stringEnum } from "./schema/schema.ts";

/** `spec` of a claim. */
export const claimSpecSchema = Type.Object(
  {
    tenantId: Type.String({
      description: "Identity of the tenant.",
      pattern: pattern.tenantId,
      maxLength: 63,
      ...rules({ rule: "self == oldSelf", message: "tenantId cannot change: delete the claim and make another" }),
    }),
    workloadRef: Type.String({
      description: "Name of the workload.",
      pattern: pattern.subdomain,
      maxLength: 63,
      ...rules({ rule: "self == oldSelf", message: "workloadRef cannot change: delete the claim and make another" }),
    }),
    resume: Type.Optional(
      Type.Boolean({ description: "Whether to restore the tenant's previous overlay if one exists.", default: false }),
    ),
    resumeVersion: Type.Optional(
      Type.String({
        description:
          "The version of the tenant's overlay to restore: its SHA-256 or the first 16 digits of that. Without it, the newest.",
        pattern: pattern.archiveVersion,
        maxLength: 64,
      }),
    ),
  },
  { description: "A tenant's lease on an instance of a workload." },
);

/** `status` of a claim. */
export const claimStatusSchema = Type.Object(
  {
    phase: stringEnum(["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"], {
      description: "Where the claim stands.",
      default: "Pending",
    }),
    reason: Type.Optional(Type.String({ description: "One word for programs.", maxLength: 256 })),
    message: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    instanceId: Type.Optional(Type.String({ description: "Name of the pod.", maxLength: 253 })),
    instanceUid: Type.Optional(Type.String({ description: "UID of that pod.", maxLength: 64 })),
    endpoint: Type.Optional(
      Type.Object(
        {
          host: Type.String({ description: "IP of the pod.", maxLength: 253 }),
          port: Type.Integer({ description: "Port of the container.", minimum: 1, maximum: 65535 }),
        },
        { description: "Where the instance listens." },
      ),
    ),
    source: Type.Optional(
      stringEnum(["existing", "pool", "pool+data", "cold", "cold+data"], {
        description: "How the instance was found.",
      }),
    ),
    resumedFrom: Type.Optional(
      Type.String({
        description:
          "SHA-256 of the archive whose files the instance was given; none where the claim asked for files and there were none.",
        maxLength: 64,
      }),
    ),
    overlayId: Type.Optional(
      Type.String({
        description:
          "The pod's uid and, after a dot, what names its overlay directories, which a pod that lost them has not.",
        maxLength: 128,
      }),
    ),
    claimedAt: Type.Optional(
      Type.String({ description: "When the instance was bound, ISO 8601.", format: "date-time" }),
    ),
    attempt: Type.Optional(
      Type.String({ description: "Value of the attempt annotation that this status answers.", maxLength: 256 }),
    ),
    observedGeneration: Type.Optional(Type.Integer({ description: "Generation of the spec that this is about." })),
    podIncarnation: Type.Optional(
      Type.Integer({ description: "Count of the pods that the claim was given.", minimum: 0 }),
    ),
    snapshot: Type.Optional(
      Type.Object(
        {
          sha256: Type.String({ description: "SHA-256 of the archive, in hexadecimal digits.", maxLength: 64 }),
          sizeBytes: Type.Integer({ description: "Bytes of the archive.", minimum: 0 }),
          createdAt: Type.String({ description: "When the files were saved, ISO 8601.", format: "date-time" }),
        },
        { description: "The archive that the release saved the files in." },
      ),
    ),
    files: Type.Optional(
      stringEnum(["saved", "unchanged", "notSaved", "discarded"], {
        description:
          "What became of the files at the release: saved in a new archive, unchanged since the newest archive, not saved since they were lost before, or given up on purpose. None before, and where the workload keeps none.",
      }),
    ),
    // A list, since the merge patch of an object would keep steps of an earlier start.
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
                "Started",
                "Ready",
                "Active",
                "Error",
              ],
              { description: "What was reached." },
            ),
            at: Type.String({ description: "When, ISO 8601 in milliseconds.", format: "date-time" }),
          },
          { description: "One step." },
        ),
        { description: "When the steps of the last start were reached, as the programs saw them.", maxItems: 16 },
      ),
    ),
    conditions: Type.Optional(conditionsSchema),
  },
  { description: "What the operator found.", default: { phase: "Pending", conditions: notObserved } },
);

/** Static type of {@link claimSpecSchema}, before defaults. */
export type ClaimSpec = Static<typeof claimSpecSchema>;

/** Static type of {@link claimStatusSchema}. */
export type ClaimStatus = Static<typeof claimStatusSchema>;

/** Phases of a claim. */
export type ClaimPhase = ClaimStatus["phase"];

/** How a claim's instance was found. */
export type ClaimSource = NonNullable<ClaimStatus["source"]>;

/** What became of a claim's files at its release. */
export type ReleasedFiles = NonNullable<ClaimStatus["files"]>;

/** A TenancyClaim. */
export interface Claim extends KubernetesObject {
  spec: ClaimSpec;
  status?: ClaimStatus;
}
