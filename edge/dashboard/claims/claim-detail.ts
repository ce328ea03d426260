import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** What the API tells of one claim. */
export type ClaimDetail = ApiTypes["Claim"] & {
  readonly name: string;
  readonly createdAt: string;
  readonly resume?: boolean;
  readonly resumeVersion?: string;
  readonly timeline?: readonly { readonly step: string; readonly at: string }[];
  readonly waitsFor?: string;
  readonly resumedFrom?: string;
  readonly snapshot?: { readonly sha256: string; readonly sizeBytes: number; readonly createdAt: string };
  readonly events?: readonly {
    readonly type: string;
    readonly reason: string;
    readonly message: string;
    readonly count?: number;
    readonly at: string;
  }[];
};
