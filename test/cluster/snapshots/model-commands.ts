import fc from "fast-check";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { NAMESPACE } from "../tenancy.ts";
import type { ModelWorld, Plan } from "./model-world.ts";

/** What must be so, as a tenant sees it. */
export interface Expected {
  /** By `<tenant>/<workload>`: what the last release saved. */
  readonly saved: Map<string, string>;
  /** By the same: the claim, and what is in its pod. */
  readonly sessions: Map<string, { claim: Claim; resume: boolean; content: string }>;
  /** Counts what was written, so that no two texts are alike. */
  written: number;
  steps: number;
}

/** Whose files of which workload. */
export interface Pair {
  readonly tenantId: string;
  readonly workloadRef: string;
}

type Command = fc.AsyncCommand<Expected, ModelWorld>;
type Step = (expected: Expected, world: ModelWorld) => Promise<void>;

const key = ({ tenantId, workloadRef }: Pair) => `${tenantId}/${workloadRef}`;
const pair = fc.record({
  tenantId: fc.constantFrom("ann", "bob"),
  workloadRef: fc.constantFrom("cold", "warm"),
});
const action = fc.constantFrom<Plan["action"][]>("kill operator", "kill operator, work goes on", "kill helper", "slow");
const claimPlan = plans(["find", "restore-begun", "restore-done"]);
const releasePlan = plans(["save-begun", "save-commits", "save-done"]);

/** Claims, writes, releases, and what goes wrong meanwhile. */
export const modelCommands: fc.Arbitrary<Command>[] = [
  fc.record({ at: pair, resume: mostly(true), plan: claimPlan }).map(claimCommand),
  pair.map(writeCommand),
  pair.map(writeCommand),
  fc.record({ at: pair, plan: releasePlan, again: fc.boolean() }).map(releaseCommand),
  fc.record({ at: pair, how: fc.constantFrom("deleted", "evicted"), plan: claimPlan }).map(loseCommand),
  fc.record({ at: pair, inRestore: fc.boolean() }).map(deleteEarlyCommand),
  pair.map(giveUpCommand),
  fc.constant(command({ name: "kill operator" }, (_expected, world) => world.killOperator())),
  fc.constant(command({ name: "kill helper" }, (_expected, world) => world.killHelper())),
];

/** That each tenant's archive, and what is in its pod, is exactly what the model says. */
export async function checkInvariants(expected: Expected, world: ModelWorld): Promise<void> {
  const found = [...world.volume.archives].map(([path, { content }]) => [path, content]).sort();
  assert.equal(found, [...expected.saved].sort());
  for (const { claim, content } of expected.sessions.values()) {
    assert.is(await contentOf(await world.tenancy.client.get(claims, reference(claim)), world), content);
  }
}

export function claimCommand({ at, resume, plan }: { at: Pair; resume: boolean; plan?: Plan | undefined }): Command {
  const name = `claim ${key(at)}${resume ? " with resume" : ""}, ${show(plan)}`;
  return command({ name, check: isFree(at) }, async (expected, world) => {
    world.plan(plan);
    const claim = await world.createClaim(at.tenantId, at.workloadRef, resume);
    await settle({ at, claim, resume }, expected, world);
  });
}

export function releaseCommand({ at, plan, again }: { at: Pair; plan?: Plan | undefined; again: boolean }): Command {
  const name = `release${again ? " and claim again at once" : ""} ${key(at)}, ${show(plan)}`;
  return command({ name, check: isHeld(at) }, async (expected, world) => {
    const { claim, content } = take(at, expected);
    world.plan(plan);
    await world.deleteClaim(claim);
    const next = again ? await world.createClaim(at.tenantId, at.workloadRef, true) : undefined;
    await world.untilGone(claim);
    expected.saved.set(key(at), content);
    if (next !== undefined) await settle({ at, claim: next, resume: true }, expected, world);
  });
}

function loseCommand({ at, how, plan }: { at: Pair; how: string; plan: Plan | undefined }): Command {
  const name = `lose the pod of ${key(at)}, ${how}, ${show(plan)}`;
  return command({ name, check: isHeld(at) }, async (expected, world) => {
    const { claim, resume } = take(at, expected);
    const { status } = await world.tenancy.client.get(claims, reference(claim));
    const pod = { namespace: NAMESPACE, name: status?.instanceId ?? "" };
    world.plan(plan);
    if (how === "deleted") await world.tenancy.client.delete(pods, pod);
    else {
      const { metadata } = await world.tenancy.client.get(pods, pod);
      world.kubelet.files.delete(metadata.uid ?? "");
      const body = { status: { phase: "Failed", reason: "Evicted" } };
      await world.tenancy.client.patch(pods, pod, { type: "merge", subresource: "status", body });
    }
    await world.tenancy.untilClaim(claim.metadata.name, (found) => found?.status?.instanceId !== pod.name);
    await settle({ at, claim, resume }, expected, world);
  });
}

/** A claim that is deleted before its tenant has its files saves nothing. */
function deleteEarlyCommand({ at, inRestore }: { at: Pair; inRestore: boolean }): Command {
  const name = `claim ${key(at)} and delete it ${inRestore ? "during the restore" : "at once"}`;
  return command({ name, check: isFree(at) }, async (expected, world) => {
    world.plan({ point: inRestore ? "restore-begun" : "find", action: "slow" });
    const before = world.happened.get("slow");
    const claim = await world.createClaim(at.tenantId, at.workloadRef, true);
    if (inRestore) {
      await world.tenancy.untilClaim(
        claim.metadata.name,
        (found) => found?.status?.phase === "Active" || world.happened.get("slow") !== before,
      );
    }
    const { status } = await world.tenancy.client.get(claims, reference(claim));
    await world.deleteClaim(claim);
    await world.untilGone(claim);
    // One that became Active before the deletion has been saved as it was given.
    const after = world.volume.archives.get(key(at))?.content;
    const saved = expected.saved.get(key(at));
    if (saved === undefined && after === "") expected.saved.set(key(at), "");
    else assert.is(after, saved, `phase ${status?.phase} before the deletion`);
  });
}

export function writeCommand(at: Pair): Command {
  // What dead operators have left half done comes when the tenant has written.
  return command({ name: `write ${key(at)}`, check: isHeld(at), letsGoOn: true }, async (expected, world) => {
    const session = expected.sessions.get(key(at));
    if (session === undefined) throw new Error("nobody holds it");
    expected.written += 1;
    session.content = `${key(at)} ${expected.written}`;
    const { status } = await world.tenancy.client.get(claims, reference(session.claim));
    const pod = await world.tenancy.client.get(pods, { namespace: NAMESPACE, name: status?.instanceId ?? "" });
    world.kubelet.files.set(pod.metadata.uid ?? "", session.content);
  });
}

/** The save fails until a person gives the files up. */
function giveUpCommand(at: Pair): Command {
  return command({ name: `give up ${key(at)}`, check: isHeld(at) }, async (expected, world) => {
    const { claim } = take(at, expected);
    world.plan({ point: "save-begun", action: "fail" }, { always: true });
    await world.deleteClaim(claim);
    await world.tenancy.untilClaim(claim.metadata.name, { phase: "ReleaseFailed" });
    const body = { metadata: { annotations: { [annotation.discard]: "true" } } };
    await world.tenancy.client.patch(claims, reference(claim), { type: "merge", body });
    await world.untilGone(claim);
    world.plan(undefined);
  });
}

/**
 * Waits for what becomes of a claim, and holds it against the model: its files, or an explicit error, never silently
 * nothing.
 */
async function settle(
  { at, claim, resume }: { at: Pair; claim: Claim; resume: boolean },
  expected: Expected,
  world: ModelWorld,
): Promise<void> {
  const settled = await world.tenancy.untilClaim(claim.metadata.name, (found) =>
    ["Active", "Error"].includes(found?.status?.phase ?? ""),
  );
  world.plan(undefined);
  const saved = resume ? expected.saved.get(key(at)) : undefined;
  if (settled.status?.phase === "Error") {
    assert.is(settled.status.reason, "RestoreFailed");
    assert.ok(saved !== undefined);
    await world.deleteClaim(claim);
    await world.untilGone(claim);
    return;
  }
  assert.is(await contentOf(settled, world), saved ?? "");
  assert.is(settled.status?.source?.endsWith("+data"), saved !== undefined);
  expected.sessions.set(key(at), { claim, resume, content: saved ?? "" });
}

async function contentOf({ status }: Claim, { tenancy, kubelet }: ModelWorld): Promise<string | undefined> {
  const pod = await tenancy.client.get(pods, { namespace: NAMESPACE, name: status?.instanceId ?? "" });
  return kubelet.files.get(pod.metadata.uid ?? "");
}

function take(at: Pair, expected: Expected): { claim: Claim; resume: boolean; content: string } {
  const session = expected.sessions.get(key(at));
  if (session === undefined) throw new Error("nobody holds it");
  expected.sessions.delete(key(at));
  return session;
}

function isFree(at: Pair): (expected: Readonly<Expected>) => boolean {
  return ({ sessions }) => !sessions.has(key(at));
}

function isHeld(at: Pair): (expected: Readonly<Expected>) => boolean {
  return ({ sessions }) => sessions.has(key(at));
}

/** @param options.letsGoOn whether what dead operators have left half done goes on afterwards */
function command(
  options: { name: string; check?: (expected: Readonly<Expected>) => boolean; letsGoOn?: boolean },
  run: Step,
): Command {
  const { name, check = () => true, letsGoOn = false } = options;
  return {
    check: (expected) => check(expected),
    async run(expected, world) {
      await run(expected, world);
      expected.steps += 1;
      world.plan(undefined);
      if (letsGoOn) await world.letGoOn();
      await checkInvariants(expected, world);
    },
    toString: () => name,
  };
}

function plans(points: Plan["point"][]): fc.Arbitrary<Plan | undefined> {
  const planned = fc.record({ point: fc.constantFrom(...points), action });
  return fc.option(planned, { nil: undefined, freq: 3 });
}

function mostly(value: boolean): fc.Arbitrary<boolean> {
  return fc.integer({ min: 0, max: 3 }).map((drawn) => (drawn === 0 ? !value : value));
}

function show(plan: Plan | undefined): string {
  return plan === undefined ? "undisturbed" : `${plan.action} at ${plan.point}`;
}

function reference({ metadata: { name } }: Claim): { namespace: string; name: string } {
  return { namespace: NAMESPACE, name };
}
