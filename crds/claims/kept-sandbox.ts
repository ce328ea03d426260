import * as v from "valibot";
import type { Claim } from "../claim.ts";
import { annotation } from "../labels.ts";
import type { ClaimKey } from "./claim-key.ts";

/** What is told of a sandbox of E2B's SDKs, also while only its saved files are left. */
export interface KeptSandbox {
  readonly metadata: Readonly<Record<string, string>>;
  /** Whether its files have to stay when its time is over. */
  readonly autoPause: boolean;
  /** Whether its tenant was made for it, and ends with it. */
  readonly made: boolean;
}

/** Bytes of the annotation `tenancy.dev/e2b`. */
export const SANDBOX_LIMIT = 16 * 1024;
/** Bytes that saved files keep of it, since a list reads them of each archive. */
export const KEPT_LIMIT = 4 * 1024;

export const keptSandboxFields = {
  metadata: v.record(v.string(), v.string()),
  autoPause: v.boolean(),
  made: v.optional(v.boolean(), false),
};
const annotationSchema = v.pipe(v.string(), v.maxLength(SANDBOX_LIMIT), v.parseJson(), v.object(keptSandboxFields));
const keptSchema = v.pipe(
  v.string(),
  v.maxLength(KEPT_LIMIT),
  v.parseJson(),
  v.object({ ...keptSandboxFields, tenantId: v.string() }),
);

/** The text that the saved files of a claim keep of its sandbox, without metadata that is too long; undefined for none. */
export function sandboxToKeep({
  metadata: { annotations },
  spec: { tenantId },
}: {
  metadata: Pick<Claim["metadata"], "annotations">;
  spec: Pick<ClaimKey, "tenantId">;
}): string | undefined {
  const stored = annotations?.[annotation.e2b];
  const { success, output } = v.safeParse(annotationSchema, stored);
  if (!success) return undefined;
  const text = JSON.stringify({ ...output, tenantId });
  return Buffer.byteLength(text) <= KEPT_LIMIT ? text : JSON.stringify({ ...output, metadata: {}, tenantId });
}

/** What saved files say of their sandbox. Undefined for files that were copied: those are of another tenant's. */
export function readKeptSandbox(text: string | undefined, { tenantId }: ClaimKey): KeptSandbox | undefined {
  const { success, output } = v.safeParse(keptSchema, text);
  if (!success || output.tenantId !== tenantId) return undefined;
  const { metadata, autoPause, made } = output;
  return { metadata, autoPause, made };
}
