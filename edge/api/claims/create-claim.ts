import type { Claim, ClaimSpec } from "../../../crds/claim.ts";
import { hasInputs, startsTooEarly } from "../../../crds/claims/claim-inputs.ts";
import { type ClaimKey, hasKey, isOver } from "../../../crds/claims/claim-key.ts";
import { isAlreadyExists, isConflict, isTransient } from "../../../crds/client/api-error.ts";
import { takesClaimInputs } from "../../../crds/defaults.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, claimLabels, finalizer } from "../../../crds/labels.ts";
import { claimName, claimSecretName, hashedClaimName, nextClaimName } from "../../../crds/names.ts";
import { formatTraceparent } from "../../../crds/tracing/trace-context.ts";
import type { Span } from "../../../crds/tracing/tracer.ts";
import { HttpError } from "../../http/http-error.ts";
import { readWorkload, workloadTerminating } from "../workloads.ts";
import { type CallInputs, createClaimSecret, secretDigests } from "./claim-secrets.ts";
import type { ClaimServices } from "./claim-services.ts";

/** Candidate names to try: fewer finished claims of one key exist at once. */
const MOST_NAMES = 8;

/**
 * Creates the claim of a key, or finds the one that another client created in the meantime.
 *
 * The finalizer is set at creation, which saves the operator a write. If the readable name is taken by the claim of
 * another key, or by a released one of this key, the claim gets the hashed name.
 *
 * @param options.span stored on the claim, so that the operator's spans belong to it
 * @returns the claim and whether this call created it with all that belongs to it; undefined if the conflicting object
 * has disappeared: look again
 * @throws HttpError 404 if the workload does not exist, 409 if it is being deleted, 400 if its program cannot get
 * inputs; nothing is created then
 */
export async function createClaim(
  request: ClaimKey & {
    resume: boolean;
    version?: string | undefined;
    expiresAt?: string | undefined;
    zone?: string | undefined;
    labels?: ClaimSpec["labels"] | undefined;
    inputs?: CallInputs | undefined;
    annotations?: Readonly<Record<string, string>> | undefined;
    joins?: boolean | undefined;
  },
  services: Pick<ClaimServices, "cluster" | "namespace" | "cache" | "clock" | "admission" | "randomId" | "secretsKey">,
  options: { signal: AbortSignal; span?: Span | undefined },
): Promise<{ claim: Claim; created: boolean } | undefined> {
  const { cluster, namespace, cache, clock, admission } = services;
  const { tenantId, workloadRef, resume, version, zone, labels, expiresAt } = request;
  const { secrets = {}, ...inputs } = request.inputs ?? {};
  const { signal, span } = options;
  const seen = cache.workloads.store.get({ namespace, name: workloadRef });
  // A workload that was being deleted may have been recreated since.
  const isKnown = seen !== undefined && seen.metadata.deletionTimestamp === undefined;
  const workload = isKnown ? seen : await readWorkload(workloadRef, { cluster, signal });
  if (workload.metadata.deletionTimestamp !== undefined) throw workloadTerminating(workloadRef);
  const hasSecrets = Object.keys(secrets).length > 0;
  const brings = hasSecrets || hasInputs(inputs);
  if (brings && !takesClaimInputs(workload.spec)) {
    const where = request.joins === true ? "spec.claim.inputs" : "body.env, body.secrets and body.files";
    throw new HttpError(400, `${where}: ${startsTooEarly(workloadRef)}`);
  }
  const { uid = "", generation = 0 } = workload.metadata;
  const secretName = hasSecrets ? claimSecretName(services.randomId()) : undefined;
  const digests = secretName === undefined ? undefined : await secretDigests(secrets, secretName, services);
  let name = claimName(request);
  for (let tries = 1; tries <= MOST_NAMES; tries += 1) {
    try {
      const claim: Claim = {
        metadata: {
          name,
          namespace,
          labels: claimLabels(request),
          // The operator's watch may be behind the workload that this edge has just read.
          annotations: {
            ...request.annotations,
            [annotation.workloadSeen]: `${uid}/${generation}`,
            [annotation.requestedAt]: new Date(clock.now()).toISOString(),
            ...(digests !== undefined && { [annotation.secretDigests]: digests }),
            ...(span !== undefined && { [annotation.traceparent]: formatTraceparent(span.context) }),
          },
          finalizers: [finalizer.release],
        },
        spec: {
          ...{ tenantId, workloadRef, resume },
          ...(version !== undefined && { resumeVersion: version }),
          ...(expiresAt !== undefined && { expiresAt }),
          ...(zone !== undefined && { zone }),
          ...(labels !== undefined && { labels }),
          ...(brings && {
            inputs: { ...inputs, ...(secretName !== undefined && { secretRef: { name: secretName } }) },
          }),
        },
      };
      const create = () => cluster(claims).create(claim, { signal });
      const made = await (admission?.write(create) ?? create());
      return { claim: made, created: await giveSecrets(made) };
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const holder = await find(name);
    if (holder === undefined) return undefined;
    if (hasKey(holder, request) && !isOver(holder)) return { claim: holder, created: false };
    name = tries === 1 ? hashedClaimName(request) : nextClaimName(request, holder.metadata.uid ?? "");
  }
  throw new Error(
    `Cannot name a claim: all ${MOST_NAMES} names of ${tenantId} on ${workloadRef} are taken by other objects`,
  );

  /** Whether that is done: where the API server gave no answer, the claim is looked at again. */
  async function giveSecrets(made: Claim): Promise<boolean> {
    if (!hasSecrets) return true;
    try {
      await createClaimSecret(made, { secrets }, { cluster, namespace, signal });
      return true;
    } catch (error) {
      if (isTransient(error) || isConflict(error)) return false;
      // If this fails too, the claim says what it lacks.
      await cluster(claims)
        .of(made)
        .delete({ signal })
        .catch(() => undefined);
      throw error;
    }
  }

  function find(name: string): Promise<Claim | undefined> {
    return cluster(claims).named(name).find({ signal });
  }
}
