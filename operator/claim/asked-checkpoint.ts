import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { type AskedCheckpoint, askedCheckpoint } from "../../crds/claims/asked-checkpoint.ts";
import { claims } from "../../crds/kinds.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import { QuotaError } from "../../crds/snapshots/snapshot-store.ts";
import { MOST_NAMES, type NameOutcome, versionNameRule } from "../../crds/snapshots/version-names.ts";
import type { SavedSnapshot } from "../snapshots/save-pod.ts";
import type { ClaimContext } from "./context.ts";

const MOST_SHOWN = 500;

type Answer = NonNullable<ClaimStatus["checkpoint"]>;
type Refusal = NonNullable<Answer["reason"]>;

/** Why a checkpoint that was asked for is not made, or has no name. */
class CheckpointRefused extends Error {
  readonly reason: Refusal;

  constructor(reason: Refusal, message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * The checkpoint that the claim asks for, if it can be made. If not, the status says why.
 *
 * @param options.keepsFiles whether the pod has files to save
 */
export async function nextAsked(
  claim: Claim,
  { keepsFiles, context }: { keepsFiles: boolean; context: ClaimContext },
): Promise<AskedCheckpoint | undefined> {
  const asked = askedCheckpoint(claim);
  if (asked === undefined) return undefined;
  const refused = refusalOf(asked, { claim, keepsFiles });
  if (refused === undefined) return asked;
  await answerCheckpoint(claim, asked, { result: { state: "failed", error: refused }, context });
  return undefined;
}

function refusalOf(
  { name }: AskedCheckpoint,
  { claim, keepsFiles }: { claim: Claim; keepsFiles: boolean },
): CheckpointRefused | undefined {
  if (!keepsFiles)
    return new CheckpointRefused("NoFiles", `workload "${claim.spec.workloadRef}" saves no files of its instances`);
  if (name !== undefined && !versionNameRule.accepts(name))
    return new CheckpointRefused(
      "InvalidName",
      `"${name}" cannot be the name of a checkpoint: ${versionNameRule.says}`,
    );
  return undefined;
}

/** @throws CheckpointRefused if no archive can be given that name: then it need not be saved */
export async function checkName(
  key: SnapshotKey,
  { name, signal }: { name: string; signal: AbortSignal },
  { snapshots }: ClaimContext,
): Promise<void> {
  const names = new Set(await snapshots.namesOf(key, signal));
  if (names.has(name)) throw refusedName("taken", { key, name });
  if (names.size >= MOST_NAMES) throw refusedName("full", { key, name });
}

/**
 * Gives the saved archive the name that was asked for.
 *
 * @throws CheckpointRefused if it cannot have that name; it then stays as a checkpoint without a name
 */
export async function nameCheckpoint(
  key: SnapshotKey,
  { name, sha256, signal }: { name: string; sha256: string; signal: AbortSignal },
  { snapshots }: ClaimContext,
): Promise<void> {
  const outcome = await snapshots.setName(key, { sha256, name, signal });
  if (outcome !== "named") throw refusedName(outcome, { key, name });
}

function refusedName(
  outcome: Exclude<NameOutcome, "named">,
  { key, name }: { key: SnapshotKey; name: string },
): CheckpointRefused {
  const where = `of tenant "${key.tenantId}" and workload "${key.workloadRef}"`;
  switch (outcome) {
    case "taken":
      return new CheckpointRefused("NameTaken", `a saved version ${where} has the name "${name}": remove it first`);
    case "full":
      return new CheckpointRefused(
        "TooManyNames",
        `saved versions ${where} have ${MOST_NAMES} names: remove one first`,
      );
    case "gone":
      return new CheckpointRefused("CheckpointFailed", `the saved version ${where} was deleted before it had its name`);
    default:
      return outcome satisfies never;
  }
}

/** Writes the result of a checkpoint that was asked for to the claim's status. */
export async function answerCheckpoint(
  claim: Claim,
  { request }: AskedCheckpoint,
  {
    result,
    context,
  }: {
    result: { state: "done"; value: SavedSnapshot } | { state: "failed"; error: unknown };
    context: ClaimContext;
  },
): Promise<Claim> {
  const none = { sha256: null, sizeBytes: null, createdAt: null, reason: null, message: null };
  const answer = result.state === "done" ? savedOf(result.value) : failureOf(result.error);
  if (result.state === "failed")
    context.log.info({ claim: claim.metadata.name, error: result.error }, "requested checkpoint failed");
  return await context
    .cluster(claims)
    .of(claim)
    .patchStatus({ checkpoint: { ...none, ...answer, request } });
}

function savedOf({ sha256, sizeBytes, createdAt }: SavedSnapshot): Partial<Answer> {
  return { sha256, sizeBytes, createdAt };
}

function failureOf(error: unknown): Partial<Answer> {
  const reason =
    error instanceof CheckpointRefused
      ? error.reason
      : error instanceof QuotaError
        ? "SnapshotQuotaExceeded"
        : "CheckpointFailed";
  return { reason, message: whyFailed(error) };
}

/** Why a checkpoint failed, for people. */
export function whyFailed(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, MOST_SHOWN);
}
