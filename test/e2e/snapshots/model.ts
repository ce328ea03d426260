import fc from "fast-check";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";
import type { Faults } from "./faults.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

/** What must be so, as a tenant sees it. Contents are what `look` prints. */
export interface Expected {
  /** By `<tenant>/<workload>`: what the last release saved. */
  readonly saved: Map<string, string>;
  /** By the same: the claim, and what is in its pod. */
  readonly sessions: Map<string, { claim: Claim; resume: boolean; content: string }>;
  /** Counts what was written, so that no two contents are alike. */
  written: number;
  readonly steps: string[];
  /** When no further step is begun, in milliseconds since the epoch. */
  readonly endsAt: number;
  /** Unless these were fewer. */
  readonly leastSteps: number;
}

export interface World {
  readonly life: Lifecycle;
  readonly faults: Faults;
}

interface Pair {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/** What is killed while a step is under way, and how many milliseconds after its beginning. */
interface Chaos {
  readonly kill: "nothing" | "operator" | "helper";
  readonly afterMs: number;
}

type Command = fc.AsyncCommand<Expected, World>;

const EMPTY = "";
const look = "$b cat /data/file 2>/dev/null && $b sha256sum < /data/large || $b ls -A /data";
const key = ({ tenantId, workloadRef }: Pair) => `${tenantId}/${workloadRef}`;

const pair = fc.record({ tenantId: fc.constantFrom("ann", "bob"), workloadRef: fc.constantFrom("cold", "warm") });
const chaos = fc.record<Chaos>({
  kill: fc.constantFrom("nothing", "nothing", "operator", "helper"),
  afterMs: fc.integer({ min: 0, max: 1200 }),
});

/** Claims, writes, releases, lost pods, and kills meanwhile. */
export const modelCommands: fc.Arbitrary<Command>[] = [
  fc.record({ at: pair, resume: fc.constantFrom(true, true, false), chaos }).map(claimCommand),
  pair.map(writeCommand),
  fc.record({ at: pair, chaos }).map(releaseCommand),
  fc.record({ at: pair, chaos }).map(loseCommand),
];

function claimCommand({ at, resume, chaos }: { at: Pair; resume: boolean; chaos: Chaos }): Command {
  return {
    toString: () => `claim ${key(at)}${resume ? " with resume" : ""}, ${show(chaos)}`,
    check: (expected) => hasTime(expected) && !expected.sessions.has(key(at)),
    async run(expected, world) {
      const claim = await world.life.createClaim(at.tenantId, at.workloadRef, resume);
      await strike(chaos, world);
      await settle({ at, claim, resume }, expected, world);
      await done(this, expected, world);
    },
  };
}

function writeCommand(at: Pair): Command {
  return {
    toString: () => `write ${key(at)}`,
    check: (expected) => hasTime(expected) && expected.sessions.has(key(at)),
    async run(expected, { life, faults }) {
      const session = sessionOf(at, expected);
      expected.written += 1;
      const fill = `echo "${key(at)} ${expected.written}" > /data/file; $b dd if=/dev/urandom of=/data/large bs=1M count=8 2>/dev/null`;
      const { status } = await life.untilClaim(session.claim, "to be there", () => true);
      session.content = await life.run(status?.instanceId, `${fill}; ${look}`);
      await done(this, expected, { life, faults });
    },
  };
}

function releaseCommand({ at, chaos }: { at: Pair; chaos: Chaos }): Command {
  return {
    toString: () => `release ${key(at)}, ${show(chaos)}`,
    check: (expected) => hasTime(expected) && expected.sessions.has(key(at)),
    async run(expected, world) {
      const { claim, content } = sessionOf(at, expected);
      expected.sessions.delete(key(at));
      await world.life.deleteClaim(claim);
      await strike(chaos, world);
      await world.life.untilGone(claim);
      expected.saved.set(key(at), content);
      await done(this, expected, world);
    },
  };
}

function loseCommand({ at, chaos }: { at: Pair; chaos: Chaos }): Command {
  return {
    toString: () => `lose the pod of ${key(at)}, ${show(chaos)}`,
    check: (expected) => hasTime(expected) && expected.sessions.has(key(at)),
    async run(expected, world) {
      const { life } = world;
      const { claim, resume } = sessionOf(at, expected);
      expected.sessions.delete(key(at));
      const { status } = await life.untilClaim(claim, "to be there", () => true);
      await life.client.delete(pods, { namespace: NAMESPACE, name: status?.instanceId ?? "" });
      await strike(chaos, world);
      const lost = status?.instanceId;
      await life.untilClaim(claim, "to lose its pod", (now) => now?.instanceId !== lost);
      await settle({ at, claim, resume }, expected, world);
      await done(this, expected, world);
    },
  };
}

/** Waits for what becomes of a claim, and holds it against the model: its files, or an explicit error, never silently nothing. */
async function settle(
  { at, claim, resume }: { at: Pair; claim: Claim; resume: boolean },
  expected: Expected,
  { life }: World,
): Promise<void> {
  const settled = await life.untilClaim(claim, "to be Active or in Error", (status) =>
    ["Active", "Error"].includes(status?.phase ?? ""),
  );
  const saved = resume ? expected.saved.get(key(at)) : undefined;
  if (settled.status?.phase === "Error") {
    assert.is(settled.status.reason, "RestoreFailed");
    assert.ok(saved !== undefined);
    await life.release(claim);
    return;
  }
  assert.is(await life.run(settled.status?.instanceId, look), saved ?? EMPTY);
  expected.sessions.set(key(at), { claim, resume, content: saved ?? EMPTY });
}

/** Every pod still holds what its tenant wrote, and nothing of another's. */
async function done(command: Command, expected: Expected, { life }: World): Promise<void> {
  expected.steps.push(command.toString());
  for (const { claim, content } of expected.sessions.values()) {
    const { status } = await life.untilClaim(claim, "to be Active", (now) => now?.phase === "Active");
    assert.is(await life.run(status?.instanceId, look), content, expected.steps.join("; "));
  }
}

async function strike({ kill, afterMs }: Chaos, { life, faults }: World): Promise<void> {
  if (kill === "nothing") return;
  await pause(afterMs);
  if (kill === "helper") return faults.killHelper();
  await life.killOperator();
  await life.startOperator();
}

function hasTime({ endsAt, leastSteps, steps }: Readonly<Expected>): boolean {
  return Date.now() < endsAt || steps.length < leastSteps;
}

function sessionOf(at: Pair, { sessions }: Expected): { claim: Claim; resume: boolean; content: string } {
  const session = sessions.get(key(at));
  if (session === undefined) throw new Error(`nobody holds ${key(at)}`);
  return session;
}

function show({ kill, afterMs }: Chaos): string {
  return kill === "nothing" ? "undisturbed" : `${kill} killed after ${afterMs} ms`;
}
