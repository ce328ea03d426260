import * as v from "valibot";
import { bytesOf, environmentProblems, quantity, wholeNumber } from "../environment.ts";
import { type S3Place, s3Environment, s3Place } from "./s3/s3-config.ts";
import type { MostKept } from "./snapshot-store.ts";

/**
 * The number of older versions of the kind `replaced` that are kept. It does not depend on the configuration, since
 * such a replacement may have been unintended.
 */
const REPLACED = 3;

/** The variables that both the operator and the edge read. */
export const storeEnvironment = {
  TENANCY_SNAPSHOT_ACCESS: v.optional(v.picklist(["direct", "api-server"], "must be direct or api-server"), "direct"),
  ...s3Environment,
  TENANCY_SNAPSHOT_STORE_EMPTY: v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
  TENANCY_SNAPSHOT_KEEP: v.optional(wholeNumber(1, 1000), "1"),
  TENANCY_SNAPSHOT_LIMIT: v.optional(quantity),
  TENANCY_SNAPSHOT_TENANT_LIMIT: v.optional(quantity),
  TENANCY_SNAPSHOT_WORKLOAD_LIMIT: v.optional(quantity),
};

/** Where archives are kept, and how many. */
export interface StoreConfig {
  readonly place: StorePlace;
  /** Whether an empty store is accepted although there were archives before. */
  readonly mayBeEmpty: boolean;
  /** The limits of every commit. */
  readonly most: MostKept;
}

export type StorePlace = VolumePlace | S3Place;

/** The snapshots volume. Its server is reached at the helper pod's address or through the API server. */
export interface VolumePlace {
  readonly kind: "volume";
  readonly access: "direct" | "api-server";
}

/** Reads where archives are kept from unchecked variables. @throws Error that names the wrong variable */
export function storePlace(env: Readonly<Record<string, string | undefined>>): StorePlace {
  const parsed = v.safeParse(v.object(storeEnvironment), env);
  if (!parsed.success) throw new Error(environmentProblems(parsed.issues, { env, hidden: [] }).join("; "));
  return storeConfig(parsed.output).place;
}

/** @throws Error that names the variable which is missing or has no effect */
export function storeConfig(values: v.InferOutput<v.ObjectSchema<typeof storeEnvironment, undefined>>): StoreConfig {
  const { TENANCY_SNAPSHOT_TENANT_LIMIT: tenant, TENANCY_SNAPSHOT_WORKLOAD_LIMIT: workload } = values;
  return {
    place: s3Place(values) ?? { kind: "volume", access: values.TENANCY_SNAPSHOT_ACCESS },
    mayBeEmpty: values.TENANCY_SNAPSHOT_STORE_EMPTY === "true",
    most: {
      // `TENANCY_SNAPSHOT_KEEP` counts the newest archive too.
      history: values.TENANCY_SNAPSHOT_KEEP - 1,
      replaced: REPLACED,
      ...(tenant !== undefined && { tenantBytes: bytesOf(tenant) }),
      ...(workload !== undefined && { workloadBytes: bytesOf(workload) }),
    },
  };
}
