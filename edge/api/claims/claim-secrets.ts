import { createHmac } from "node:crypto";
import type { Claim } from "../../../crds/claim.ts";
import { type ClaimInputs, differingInputs } from "../../../crds/claims/claim-inputs.ts";
import { differingKeys } from "../../../crds/claims/differing-keys.ts";
import { isAlreadyExists } from "../../../crds/client/api-error.ts";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { ownerReference } from "../../../crds/resource.ts";
import { CLAIM_SECRET_TYPE } from "../../../crds/secret-refusal.ts";
import type { ClaimServices } from "./claim-services.ts";

/**
 * What a claim call or a trigger gives to its program. The secret variables of a call never get into the claim's spec;
 * a trigger has a `secretRef` instead.
 */
export interface CallInputs extends ClaimInputs {
  readonly secrets?: Readonly<Record<string, string>> | undefined;
}

/**
 * For each secret variable a digest that only an edge with the API key can make, as `NAME=digest`, and one of no
 * variable, `=digest`, that tells the key. So an edge need not read Secrets. The name of the Secret, which is random,
 * makes equal values of two claims look different.
 */
export async function secretDigests(
  values: Readonly<Record<string, string>>,
  secretName: string,
  { secretsKey }: Pick<ClaimServices, "secretsKey">,
): Promise<string> {
  if (secretsKey === undefined) throw new Error("Cannot take secrets: no secretsKey was given");
  const key = await secretsKey();
  const digest = (name: string, value: string) =>
    createHmac("sha256", key).update(`${secretName} ${name} ${value}`).digest("base64url").slice(0, 22);
  return ["", ...Object.keys(values)].map((name) => `${name}=${digest(name, values[name] ?? "")}`).join(" ");
}

/** What differs between a claim and a call: `secrets.TOKEN`, or as {@link differingInputs}, and never a value. */
export async function differingFromCall(
  { metadata, spec }: Claim,
  { secrets = {}, ...inputs }: CallInputs,
  services: Pick<ClaimServices, "secretsKey">,
): Promise<string[]> {
  const digests = metadata.annotations?.[annotation.secretDigests];
  const { secretRef, ...own } = spec.inputs ?? {};
  if (digests === undefined || secretRef === undefined) {
    return [...differingInputs(spec.inputs, inputs), ...Object.keys(secrets).map(placeOf)];
  }
  const asked = await secretDigests(secrets, secretRef.name, services);
  const names = differingKeys(byName(digests), byName(asked));
  return [...differingInputs(own, inputs), ...(names.includes("") ? ["API key"] : names.map(placeOf))];
}

function byName(digests: string): Map<string, string> {
  return new Map(digests.split(" ").map((one) => one.split("=", 2) as [string, string]));
}

function placeOf(name: string): string {
  return `secrets.${name}`;
}

/** Creates the Secret that a claim names and that goes with it, unless an equal call has done so. */
export async function createClaimSecret(
  claim: Claim,
  { secrets: values = {} }: CallInputs,
  { cluster, namespace, signal }: Pick<ClaimServices, "cluster" | "namespace"> & { signal: AbortSignal },
): Promise<void> {
  const { secretRef } = claim.spec.inputs ?? {};
  if (secretRef === undefined || Object.keys(values).length === 0) return;
  const data = Object.entries(values).map(([name, value]) => [name, Buffer.from(value).toString("base64")]);
  const secret = {
    metadata: { name: secretRef.name, namespace, ownerReferences: [ownerReference(claims, claim)] },
    ...{ type: CLAIM_SECRET_TYPE, immutable: true, data: Object.fromEntries(data) },
  };
  try {
    await cluster(secrets).create(secret, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}
