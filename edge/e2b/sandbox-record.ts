import * as v from "valibot";
import type { Claim } from "../../crds/claim.ts";
import { type KeptSandbox, keptSandboxFields, SANDBOX_LIMIT } from "../../crds/claims/kept-sandbox.ts";
import { annotation } from "../../crds/labels.ts";
import { HttpError } from "../http/http-error.ts";
import type { TokenHolder } from "./access-token.ts";

/** What a claim says about itself as a sandbox, in its annotation `tenancy.dev/e2b`. */
export interface SandboxRecord extends KeptSandbox {
  /** Who created or resumed it: the access token that signs addresses of files is theirs. */
  readonly by: TokenHolder;
}

const schema = v.pipe(
  v.string(),
  v.maxLength(SANDBOX_LIMIT),
  v.parseJson(),
  v.object({
    ...keptSandboxFields,
    by: v.object({
      kind: v.picklist(["root", "key", "person", "serviceAccount"]),
      id: v.string(),
      ref: v.string(),
    }),
  }),
);

/** Objects of the cache are not changed, so each is parsed once. */
const known = new WeakMap<Claim, { readonly record: SandboxRecord | undefined }>();

/** The record of a claim; undefined if the SDKs did not create it, or if a person has damaged the annotation. */
export function sandboxRecord(claim: Claim): SandboxRecord | undefined {
  const found = known.get(claim) ?? { record: parse(claim.metadata.annotations?.[annotation.e2b]) };
  known.set(claim, found);
  return found.record;
}

function parse(text: string | undefined): SandboxRecord | undefined {
  if (text === undefined) return undefined;
  const { success, output } = v.safeParse(schema, text);
  return success ? output : undefined;
}

/** The annotation of a new claim. @throws HttpError 400 if it is too large */
export function recordAnnotation({ by, ...record }: SandboxRecord): Record<string, string> {
  const { kind, id, ref } = by;
  const text = JSON.stringify({ ...record, by: { kind, id, ref } });
  const bytes = Buffer.byteLength(text);
  if (bytes > SANDBOX_LIMIT)
    throw new HttpError(400, `body.metadata: is too large: at most ${SANDBOX_LIMIT} bytes, got about ${bytes}`);
  return { [annotation.e2b]: text };
}
