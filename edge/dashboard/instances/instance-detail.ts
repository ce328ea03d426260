import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** What the API tells of one instance, of its pod as it is. */
export type InstanceDetail = ApiTypes["Instance"] & {
  readonly node?: string;
  readonly containers?: readonly {
    readonly name: string;
    readonly image?: string;
    readonly state?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly ready?: boolean;
    readonly restarts?: number;
    readonly requests?: Readonly<Record<string, string>>;
    readonly limits?: Readonly<Record<string, string>>;
  }[];
};
